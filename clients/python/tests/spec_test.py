"""Specifications as people write them. The reference is the daemon: what it stored, read from its messages."""

import datetime
import os
import pathlib
import unittest
from unittest import mock

import fulcrum
from fulcrum import api
from fulcrum.spec import fields_of
from support import DaemonTest, answer, clouds

SPEC = api.message("fulcrum.v1.CampaignSpec")


def made(**given):
    return SPEC(**fields_of(SPEC.DESCRIPTOR, given))


class SpecTest(unittest.TestCase):
    def test_durations_of_every_kind(self):
        for given, seconds in (("30m", 1800), ("1h30m", 5400), ("90s", 90), ("1.5s", 1.5), ("250ms", 0.25), (7, 7), (0.1, 0.1),
                               (datetime.timedelta(hours=2, microseconds=5), 7200.000005),
                               ({"seconds": 3, "nanos": 4}, 3.000000004)):
            time = made(labeling={"lease_time": given}).labeling.lease_time
            self.assertAlmostEqual(time.seconds + time.nanos * 1e-9, seconds, places=9, msg=given)

    def test_names_and_lists(self):
        spec = made(classifier={"external": {"fallback": "builtin"}, "tune": "off"}, features={"normalize": "zscore"},
                    labeling={"consensus": "dawid-skene"}, selection={"engine": "ENGINE_TILED", "kernel": {"type": 2}},
                    stop={"accuracy": {"sources": [pathlib.Path("held.csv")], "target": 1}, "labels": 20.0})
        as_messages = SPEC(classifier={"external": {"fallback": 2}, "tune": 2}, features={"normalize": [2]},
                           labeling={"consensus": 2}, selection={"engine": 4, "kernel": {"type": 2}},
                           stop={"accuracy": {"sources": ["held.csv"], "target": 1.0}, "labels": 20})
        self.assertEqual(spec, as_messages)
        self.assertEqual(made(stop=as_messages.stop, seed=None).stop, as_messages.stop)

    def test_errors_name_the_field_and_what_it_takes(self):
        for given, pattern in (({"labelling": {}}, "no field 'labelling'; do you mean 'labeling'"),
                               ({"stop": {"label": 3}}, "no field 'stop.label'; do you mean 'labels'"),
                               ({"stop": 200}, "stop must be a dictionary, not 200"),
                               ({"labeling": {"lease_time": "soon"}}, "labeling.lease_time is 'soon'; .* such as 90s"),
                               ({"labeling": {"lease_time": -1}}, "labeling.lease_time is -1, which is not a duration"),
                               ({"labeling": {"lease_time": [1]}}, "labeling.lease_time must be a duration"),
                               ({"selection": {"batch": 2.5}}, "selection.batch must be a whole number, not 2.5"),
                               ({"selection": {"batch": "20"}}, "selection.batch must be a number, not '20'"),
                               ({"selection": {"strategy": 1.5}}, "selection.strategy must be text"),
                               ({"features": {"normalize": ["unit", "max"]}},
                                r"features.normalize\[1\] is 'max'; it must be none, zscore"),
                               ({"classifier": {"external": {"fallback": "built in"}}},
                                "classifier.external.fallback is 'built in'; it must be fail, builtin")):
            with self.subTest(given), self.assertRaisesRegex(ValueError, pattern):
                made(**given)


class CampaignTest(DaemonTest):
    def test_a_campaign_with_values_as_in_a_file(self):
        campaign = self.client.create_campaign(
            "digits", self.pool(), ["neg", "pos"], start=False, labeling={"lease_time": "2m"},
            classifier={"external": {"timeout": datetime.timedelta(minutes=40), "fallback": "builtin"}},
            stop={"stable": {"rounds": 3}})
        spec = campaign.describe().spec
        self.assertEqual(spec.labeling.lease_time.seconds, 120)
        self.assertEqual(spec.classifier.external.timeout.seconds, 2400)
        self.assertEqual(spec.classifier.external.fallback, 2)
        with self.assertRaisesRegex(ValueError, "do you mean 'selection'"):
            self.client.create_campaign("digits", self.pool(), ["neg", "pos"], selecton={})

    def test_a_wrong_specification_is_refused_before_the_pool_is_sent(self):
        self.client.create_campaign("there", self.pool(), ["neg", "pos"], start=False)
        for name, given, code in (("bad", {"selection": {"tau": 7.0}}, "INVALID_ARGUMENT"),
                                  ("bad", {"stop": {"accuracy": {"target": 2}}, "validation": self.pool()}, "INVALID_ARGUMENT"),
                                  ("there", {}, "ALREADY_EXISTS")):
            with self.subTest(given), mock.patch("fulcrum.client.send_file", side_effect=AssertionError("it was sent")), \
                    self.assertRaises(fulcrum.FulcrumError) as refused:
                self.client.create_campaign(name, self.pool(), ["neg", "pos"], **given)
            self.assertEqual(refused.exception.code, code)
        self.assertEqual([each.name for each in self.client.campaigns()], ["there"])

    def test_validation_rows_are_sent(self):
        path = os.path.join(self.folder.name, "held.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write("f0,f1,f2,f3,label\n" + "".join(
                ",".join(map(repr, row)) + f",{'pos' if number % 2 else 'neg'}\n" for number, row in enumerate(clouds(60))))
        campaign = self.client.create_campaign("validated", self.pool(), ["neg", "pos"], validation=path,
                                               selection={"batch": 6}, stop={"rounds": 3})
        fulcrum.Worker(self.client, campaign, answer).run()
        accuracies = [row["accuracy"] for row in self.rows(campaign.curve())]
        self.assertTrue(accuracies)
        self.assertTrue(all(accuracy > 0.5 for accuracy in accuracies), accuracies)
        self.assertEqual(os.listdir(self.folder.name + "/data/uploads"), [])
        with self.assertRaisesRegex(ValueError, "either validation or"):
            self.client.create_campaign("twice", self.pool(), ["neg", "pos"], validation=path,
                                        stop={"accuracy": {"sources": ["held.csv"]}})

    def test_columns_that_are_no_features(self):
        pandas = self.need("pandas")
        frame = pandas.DataFrame(clouds(200), columns=list("abcd"))
        frame["text"] = [f"text {row}" for row in range(200)]
        frame["note"] = "a note"
        frame["day"] = pandas.date_range("2024-01-01", periods=200)
        with self.assertRaises(fulcrum.FulcrumError) as refused:
            self.client.create_campaign("all", frame, ["neg", "pos"], payload_column="text")
        self.assertIn("ignored columns", refused.exception.message)
        path = os.path.join(self.folder.name, "frame.csv")
        frame.to_csv(path, index=False)
        for name, pool, given in (("ignore", frame, {"ignore": ["note", "day"]}), ("file", path, {"ignore": ["note", "day"]}),
                                  ("features", frame, {"features": list("abcd")})):
            with self.subTest(name):
                campaign = self.client.create_campaign(name, pool, ["neg", "pos"], payload_column="text", seed=3,
                                                       selection={"batch": 6}, stop={"rounds": 2}, **given)
                self.assertEqual(list(campaign.describe().spec.pool.ignored_columns), ["note", "day"])
                fulcrum.Worker(self.client, campaign, answer).run()
                self.assertEqual(len(campaign.predict(frame)), 200)
        growing = self.client.create_campaign("grows", frame, ["neg", "pos"], ignore=["text", "note", "day"], start=False)
        for part in (frame[:10], frame[list("abcd")][:10]):
            self.assertEqual(growing.append(part)["added"], 10)
        with self.assertRaisesRegex(ValueError, r"no columns \['e'\]"):
            self.client.create_campaign("missing", frame, ["neg", "pos"], features=["a", "e"])
        with self.assertRaisesRegex(ValueError, "name the other columns with ignore"):
            self.client.create_campaign("path", path, ["neg", "pos"], features=["a"])

    def test_the_frame_that_made_the_pool_is_predicted(self):
        pandas = self.need("pandas")
        rows = pandas.DataFrame(clouds(200), columns=list("abcd"))
        frame = rows.assign(name=[f"r{row}" for row in range(200)], text="what to look at")
        campaign = self.client.create_campaign("frame", frame, ["neg", "pos"], id_column="name", payload_column="text",
                                               selection={"batch": 6}, stop={"rounds": 3}, seed=3)
        fulcrum.Worker(self.client, campaign,
                       lambda task: answer(type("Row", (), {"id": task.id[1:]}))).run()
        by_frame = campaign.predict(frame)
        by_id = campaign.predict(list(frame["name"]))
        self.assertEqual(list(by_frame["id"]), list(by_id["id"]))
        self.assertEqual(list(by_frame["label"]), list(by_id["label"]))
        self.assertEqual(len(set(by_frame["label"])), 2)

    def test_the_index_of_a_frame_names_its_rows(self):
        pandas = self.need("pandas")
        frame = pandas.DataFrame(clouds(200), columns=list("abcd"))
        odd = frame[frame.index % 2 == 1]
        campaign = self.client.create_campaign("odd", odd, ["neg", "pos"], selection={"batch": 6}, stop={"rounds": 1})
        fulcrum.Worker(self.client, campaign, answer).run()
        labels = self.rows(campaign.labels())
        self.assertEqual({row["label"] for row in labels}, {"pos"})
        self.assertLessEqual({int(row["id"]) for row in labels}, set(odd.index))
        more = self.client.create_campaign("more", odd, ["neg", "pos"], start=False)
        self.assertEqual(more.append(frame[190:])["added"], 5, "the odd ones of the ten are there")
        plain = self.client.create_campaign("plain", frame, ["neg", "pos"], start=False)
        self.assertEqual(plain.describe().spec.pool.id_column, "")
        twice = self.client.create_campaign("twice", frame.set_index([[1, 2] * 100]), ["neg", "pos"], start=False)
        self.assertEqual(twice.describe().spec.pool.id_column, "")


if __name__ == "__main__":
    unittest.main()
