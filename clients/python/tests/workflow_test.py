"""What people do with a campaign in a terminal, a script or a notebook, against a real daemon."""

import asyncio
import contextlib
import io
import threading
import unittest
from unittest import mock

import fulcrum
from fulcrum import display
from support import DaemonTest, answer, clouds


class Terminal(io.StringIO):
    def isatty(self):
        return True


class WorkflowTest(DaemonTest):
    def done(self, name="clouds", **spec):
        campaign = self.create(name, rounds=3, **spec)
        fulcrum.Worker(self.client, campaign, answer).run()
        return campaign

    def test_watch_draws_a_bar_until_the_campaign_is_done(self):
        campaign = self.create("clouds", rounds=3)
        out = Terminal()
        watching = threading.Thread(target=campaign.watch, args=(out,))
        watching.start()
        fulcrum.Worker(self.client, campaign, answer).run()
        watching.join(60)
        self.assertFalse(watching.is_alive())
        last = out.getvalue().rstrip().rpartition("\r")[2]
        self.assertIn("[" + "#" * 30 + "] clouds: 18 labels", last)
        self.assertIn("done", last)
        lines = io.StringIO()
        campaign.watch(lines)
        self.assertIn("clouds: 18 labels", lines.getvalue())
        self.assertNotIn("\r", lines.getvalue())

    def test_watch_ends_with_the_reason_of_a_failure(self):
        campaign = self.create("fails", rounds=3, classifier={"external": {"timeout": "1s"}})
        labeling = threading.Thread(target=fulcrum.Worker(self.client, campaign, answer).run, daemon=True)
        labeling.start()
        out = Terminal()
        campaign.watch(out)
        self.assertEqual(campaign.state, "failed")
        reason = campaign.describe().state_reason
        self.assertTrue(reason)
        self.assertIn(f"failed ({reason})", out.getvalue())
        campaign.stop()
        labeling.join(60)
        self.assertFalse(labeling.is_alive())

    def test_watch_updates_one_display_in_a_notebook(self):
        self.need("IPython")
        campaign = self.done()
        shown = []
        handle = mock.Mock(update=lambda each: shown.append(each.data))
        with mock.patch.object(display, "_in_notebook", return_value=True), \
                mock.patch("IPython.display.display", return_value=handle):
            campaign.watch()
        self.assertIn('<progress value="1.000" max="1">', shown[-1])
        self.assertIn("18 labels", shown[-1])

    def test_events_continue_after_the_daemon_was_killed(self):
        campaign = self.create("clouds", rounds=2, start=False)
        events = campaign.events()
        self.assertTrue(next(events).HasField("campaign"))
        campaign.start()
        self.assertTrue(any(event.HasField("batch") for event in events if event.sequence > 0))
        self.daemon.kill()
        self.daemon.start()
        worker = threading.Thread(target=fulcrum.Worker(self.client, campaign, answer).run)
        worker.start()
        states = [event.campaign.state for event in events if event.HasField("campaign")]
        worker.join(60)
        self.assertEqual(states[-1], campaign.describe().state)
        self.assertEqual(campaign.state, "done")

    def test_a_campaign_shows_its_learning_curve(self):
        campaign = self.create("clouds", rounds=3)
        self.assertIn("no model yet", campaign._repr_html_())
        fulcrum.Worker(self.client, campaign, answer).run()
        page = campaign._repr_html_()
        self.assertIn("<svg", page)
        self.assertEqual(page.count("<circle"), len(self.rows(campaign.curve())))
        self.assertIn("unchanged by the last labels", page)

    def test_a_name_in_a_summary_is_not_html(self):
        campaign = mock.Mock(labels=1, round=1, pool_rows=1, state_reason="<b>")
        campaign.name = "<script>"
        self.assertNotIn("<script>", display.campaign_html(campaign, "done", []))

    def test_predict_takes_arrays_frames_and_ids(self):
        numpy = self.need("numpy")
        campaign = self.done()
        rows = numpy.array(clouds(200))
        by_row = self.rows(campaign.predict(rows))
        by_id = self.rows(campaign.predict([str(row) for row in range(200)]))
        self.assertEqual([row["label"] for row in by_row], [row["label"] for row in by_id])
        self.assertEqual(by_id[7]["id"], "7")
        by_list = self.rows(campaign.predict(clouds(200)[:3]))
        self.assertEqual([row["label"] for row in by_list], [row["label"] for row in by_row[:3]])
        self.assertEqual([row["id"] for row in by_list], [0, 1, 2])
        pandas = self.need("pandas")
        # Features are matched by name, and rows are called what they are called in the data frame.
        frame = pandas.DataFrame(rows, columns=["f0", "f1", "f2", "f3"], index=[f"r{row}" for row in range(200)])
        by_frame = campaign.predict(frame[["f3", "f1", "f0", "f2"]])
        self.assertEqual(list(by_frame["label"]), [row["label"] for row in by_id])
        self.assertEqual(by_frame["id"][7], "r7")
        with self.assertRaises(fulcrum.FulcrumError) as refused:
            campaign.predict(frame.rename(columns={"f0": "other"}))
        self.assertEqual(refused.exception.code, "INVALID_ARGUMENT")

    def test_items_refuses_an_unknown_state(self):
        with self.assertRaisesRegex(ValueError, "no state 'lost' of items"):
            self.create("clouds").items("lost")

    def test_without_pandas_tables_are_lists(self):
        campaign = self.done()
        with mock.patch.dict("sys.modules", {"pandas": None}):
            labels = campaign.labels()
            self.assertIsInstance(labels, list)
            self.assertEqual(set(labels[0]), {"id", "label", "annotator", "time", "round", "counts", "decision",
                                              "confidence", "suggested"})
            self.assertEqual(labels[0]["confidence"], 1)
            self.assertIsInstance(campaign.curve(), list)
            annotators = campaign.annotators()
            self.assertEqual([row["labels"] for row in annotators], [18])
            self.assertEqual(annotators[0]["name"], labels[0]["annotator"])
            self.assertEqual(annotators[0]["paused"], "")
            self.assertIsNone(annotators[0]["drift"])
            self.assertEqual(len(campaign.items("labeled")), 18)

    def test_arrays_and_frames_are_appended(self):
        numpy = self.need("numpy")
        rows = numpy.array(clouds(210))
        with mock.patch.dict("sys.modules", {"pyarrow": None}):
            named = self.client.create_campaign("named", rows[:200], ["neg", "pos"], ids=[f"r{i}" for i in range(200)])
            again = named.append(rows[198:], ids=[f"r{i}" for i in range(198, 210)])
            self.assertEqual((again["added"], again["existing"], again["pool_rows"]), (10, 2, 210))
            frame = self.need("pandas").DataFrame(rows, columns=["f0", "f1", "f2", "f3"])
            by_frame = self.client.create_campaign("frame", frame[:200], ["neg", "pos"])
            added = by_frame.append(frame[200:])
            self.assertEqual((added["added"], added["rejected"], added["pool_rows"]), (10, 0, 210))

    def test_what_cannot_be_a_pool_is_refused(self):
        numpy = self.need("numpy")
        for rows, pattern in ((numpy.zeros((0, 3)), "no rows"), (numpy.zeros(3), "two dimensions")):
            with self.assertRaisesRegex(ValueError, pattern):
                self.client.create_campaign("refused", rows, ["neg", "pos"])
        with self.assertRaisesRegex(ValueError, "3 ids and 4 rows"):
            self.client.create_campaign("refused", numpy.zeros((4, 2)), ["neg", "pos"], ids="abc")

    def test_sparse_matrices_are_pools(self):
        numpy, sparse = self.need("numpy"), self.need("scipy.sparse")
        dense = numpy.array(clouds(210)).round(1)
        dense[dense < 0.3] = 0
        found = {}
        for kind, rows in (("dense", dense), ("csr", sparse.csr_matrix(dense)), ("coo", sparse.coo_matrix(dense))):
            campaign = self.client.create_campaign(kind, rows, ["neg", "pos"], ids=[str(row) for row in range(210)],
                                                   selection={"batch": 6}, stop={"rounds": 2}, seed=3)
            fulcrum.Worker(self.client, campaign, answer).run()
            self.assertEqual(campaign.state, "done")
            found[kind] = [row["label"] for row in self.rows(campaign.predict(rows))]
        self.assertEqual(found["csr"], found["coo"])
        more = sparse.csr_matrix(dense[:12])
        growing = self.client.create_campaign("grows", sparse.csr_matrix(dense[:200]), ["neg", "pos"], start=False,
                                              ids=[f"r{row}" for row in range(200)])
        added = growing.append(more, ids=[f"new-{row}" for row in range(12)])
        self.assertEqual((added["added"], added["pool_rows"]), (12, 212))
        with self.assertRaisesRegex(ValueError, "3 ids and 12 rows"):
            growing.append(more, ids="abc")

    def test_items_have_votes_and_are_decided(self):
        campaign = self.create("clouds", rounds=1, labeling={"overlap": 2, "most_votes": 2})
        worker = fulcrum.Worker(self.client, campaign, answer, annotator="ada")
        other = fulcrum.Worker(self.client, campaign, lambda task: "neg", annotator="ben")
        running = [threading.Thread(target=each.run, daemon=True) for each in (worker, other)]
        for thread in running:
            thread.start()
        disputed = []
        for _ in campaign.events():
            disputed = self.rows(campaign.items("disputed"))
            labeled = self.rows(campaign.items("labeled"))
            if len(disputed) + len(labeled) == 6 and disputed:
                break
        first = disputed[0]
        self.assertEqual(first["votes"], {"ada": "pos", "ben": "neg"})
        self.assertEqual(first["agreement"], 0.5)
        about = campaign.item(first["id"])
        self.assertEqual(about.item.item_id, first["id"])
        self.assertIn(fulcrum.api.enum_value("fulcrum.v1.ItemEventKind", "ITEM_EVENT_KIND_LABEL_SUBMITTED"), [event.kind for event in about.history])
        self.assertEqual(campaign.resolve(first["id"], "pos", "looked again").label, "pos")
        self.assertEqual(campaign.item(first["id"]).item.label, "pos")
        with self.assertRaises(fulcrum.FulcrumError) as refused:
            campaign.return_item(first["id"])
        self.assertEqual(refused.exception.code, "FAILED_PRECONDITION")
        campaign.stop()
        for thread in running:
            thread.join(60)
            self.assertFalse(thread.is_alive())

    def test_an_item_that_was_set_aside_is_offered_again(self):
        campaign = self.create("clouds", rounds=1)
        skipped = []

        def label(task):
            if not skipped or task.id in skipped:
                skipped.append(task.id)
                return fulcrum.Skip("bad_item") if len(skipped) == 1 else answer(task)
            worker.stop()
            return answer(task)

        worker = fulcrum.Worker(self.client, campaign, label, concurrency=1)
        worker.run()
        self.assertEqual([row["id"] for row in self.rows(campaign.items("set_aside"))], skipped)
        self.assertNotEqual(campaign.return_item(skipped[0], "it can be read now").reason, "bad_item")
        fulcrum.Worker(self.client, campaign, answer).run()
        self.assertEqual(campaign.state, "done")
        self.assertIn(skipped[0], [row["id"] for row in self.rows(campaign.labels())])

    def test_a_campaign_is_updated_while_it_runs(self):
        campaign = self.create("clouds", rounds=1, question="Which cloud?")
        campaign.update(stop={"rounds": 2, "stable": {"rounds": 5}}, labeling={"lease_time": "7m"}, question="Which?")
        spec = campaign.describe().spec
        self.assertEqual((spec.stop.rounds, spec.stop.stable.rounds, spec.labeling.lease_time.seconds, spec.question),
                         (2, 5, 420, "Which?"))
        self.assertEqual(spec.selection.batch, 6)
        campaign.update(labeling={"lease_time": None})
        self.assertEqual(campaign.describe().spec.labeling.lease_time.seconds, 0)
        with self.assertRaises(fulcrum.FulcrumError) as refused:
            campaign.update(selection={"strategy": "margin"})
        self.assertEqual(refused.exception.code, "INVALID_ARGUMENT")
        with self.assertRaisesRegex(ValueError, "do you mean 'labels'"):
            campaign.update(stop={"label": 3})
        fulcrum.Worker(self.client, campaign, answer).run()
        self.assertEqual(len(self.rows(campaign.labels())), 12)

    def test_arrow_tables_and_batches_are_pools_and_can_be_appended(self):
        pyarrow = self.need("pyarrow")
        numpy = self.need("numpy")
        rows = numpy.array(clouds(210))
        table = pyarrow.table({f"f{column}": rows[:200, column] for column in range(4)})
        campaign = self.client.create_campaign("table", table, ["neg", "pos"])
        self.assertEqual(campaign.append(rows[200:])["pool_rows"], 210)
        batches = (batch for batch in table.to_batches(max_chunksize=64))
        by_batches = self.client.create_campaign("batches", batches, ["neg", "pos"])
        self.assertEqual(by_batches.describe().pool_rows, 200)
        added = by_batches.append(self.need("pandas").DataFrame(rows[200:], columns=["f0", "f1", "f2", "f3"]))
        self.assertEqual((added["added"], added["rejected"]), (10, 0))
        named = self.client.create_campaign("named", rows[:200], ["neg", "pos"], ids=[f"r{i}" for i in range(200)])
        again = named.append(rows[198:], ids=[f"r{i}" for i in range(198, 210)])
        self.assertEqual((again["added"], again["existing"], again["pool_rows"]), (10, 2, 210))

    def test_imported_labels_count(self):
        campaign = self.create("clouds", start=False)
        self.assertEqual(campaign.import_labels({row: "neg" if row % 2 == 0 else "pos" for row in range(20)}), 20)
        campaign.start()
        fulcrum.Worker(self.client, campaign, answer).run()
        self.assertEqual(self.rows(campaign.curve())[0]["labels"], 20)

    def test_the_same_with_asyncio(self):
        async def work():
            async with fulcrum.aio.Client(self.daemon.address) as client:
                campaign = await client.create_campaign("clouds", self.pool(), ["neg", "pos"], stop={"rounds": 2},
                                                        selection={"strategy": "margin", "batch": 5})
                now = 0
                several = asyncio.Event()  # of this loop: labels run on it

                async def label(task):
                    nonlocal now
                    now += 1
                    if now > 1:
                        several.set()
                    await asyncio.wait_for(several.wait(), 60)
                    now -= 1
                    return answer(task)

                worker = fulcrum.Worker(client, campaign, label, concurrency=5)
                self.assertEqual(await worker.run_async(), 10)
                self.assertEqual(await campaign.state(), "done")
                self.assertEqual(len(self.rows(await campaign.labels())), 10)
                models = [event async for event in campaign.events() if event.HasField("model")]
                self.assertEqual(len(models), len(self.rows(await campaign.curve())))
                with self.assertRaises(fulcrum.FulcrumError):
                    await client.campaign("nowhere")
        asyncio.run(work())

    def test_calls_do_not_wait_for_open_streams(self):
        campaign = self.create("clouds", rounds=1)

        async def work():
            async with fulcrum.aio.Client(self.daemon.address, concurrency=2) as client:
                same = await client.campaign(campaign.name)
                streams = [same.events() for _ in range(5)]
                # The first event of each is there; each then waits for another one.
                await asyncio.gather(*(stream.__anext__() for stream in streams))
                waiting = [asyncio.ensure_future(collect(stream)) for stream in streams]
                for _ in range(10):
                    await client.version()
                self.assertFalse(any(each.done() for each in waiting))
                await same.stop()
                await asyncio.gather(*waiting)

        async def collect(stream):
            return [event async for event in stream]

        asyncio.run(asyncio.wait_for(work(), 60))

    def test_cancelling_an_asynchronous_worker_stops_it(self):
        campaign = self.create("clouds", rounds=1)

        async def work():
            begun = asyncio.Event()

            async def label(task):
                begun.set()
                await asyncio.sleep(0.3)
                return answer(task)

            worker = fulcrum.Worker(self.client, campaign, label, concurrency=2)
            running = asyncio.ensure_future(worker.run_async())
            await begun.wait()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            self.assertEqual(worker.labels, 2)
        asyncio.run(work())
        self.assertEqual(len(self.rows(campaign.items("leased"))), 0)

    def test_skips_by_returning_and_wrong_labels(self):
        campaign = self.create("clouds", rounds=1)
        wrong = []

        def label(task):
            if not wrong:
                wrong.append(task.id)
                return "maybe"
            return fulcrum.Skip("bad_item") if int(task.id) % 2 == 0 else answer(task)

        worker = fulcrum.Worker(self.client, campaign, label, concurrency=1)
        worker.run()
        self.assertEqual(list(worker.errors), wrong)
        self.assertRegex(str(worker.errors[wrong[0]]), "not one of \\['neg', 'pos'\\]")
        self.assertEqual(len(self.rows(campaign.items("set_aside"))), worker.skips)
        self.assertEqual(worker.labels + worker.skips, 6)

    def test_a_widget_labels_skips_and_returns_tasks(self):
        self.need("ipywidgets")
        from fulcrum.widget import LabelingWidget, show_payload
        campaign = self.create("clouds", rounds=1)
        widget = LabelingWidget(self.client, campaign)
        names = [button.description for button in widget._buttons.children]
        self.assertEqual(names, ["neg", "pos", "skip: unsure", "skip: bad item"])
        first = widget.task.id

        def press(button):
            button._click_handlers(button)  # Button.click is new in ipywidgets 8

        press(widget._buttons.children[int(first) % 2])
        self.assertEqual(widget.labels, 1)
        self.assertNotEqual(widget.task.id, first)
        self.assertEqual(self.rows(campaign.labels())[0]["id"], first)
        press(widget._buttons.children[3])
        self.assertEqual(len(self.rows(campaign.items("set_aside"))), 1)
        widget.close()
        self.assertEqual(len(self.rows(campaign.items("leased"))), 0)
        task = mock.Mock(payload=b"<script>alert(1)</script>", id="1")
        self.assertNotIn("<script>", show_payload(task))
        self.assertIn("<img", show_payload(mock.Mock(payload=b"https://example.org/a.png")))

    def test_a_widget_shows_large_payloads(self):
        self.need("ipywidgets")
        from fulcrum.widget import LabelingWidget
        campaign, texts = self.create_with_large_payloads("large")
        widget = LabelingWidget(self.client, campaign)
        self.assertIn(texts[widget.task.id], widget._payload.value)
        widget.close()


if __name__ == "__main__":
    unittest.main()
