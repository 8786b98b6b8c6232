#!/usr/bin/env python3
"""Labeling in a real Chromium: by keyboard, with changes, skips, a daemon that goes away, and hostile payloads."""
import unittest

from web_browser import By, Keys, PageTest

RUN = "window.ran=1"
# What runs scripts in one place or another, in the forms in which it is usually written.
MARKUP = [
    f"<script>{RUN}</script>", f"<SCRIPT>{RUN}</SCRIPT>", f"<script src=data:text/javascript,{RUN}></script>", f"</div><script>{RUN}</script>",
    f"<img src=x onerror={RUN}>", f"<img src=x onerror='{RUN}'>", f"<IMG SRC=x OnErRoR={RUN}>", f"<img/src=x/onerror={RUN}>",
    f"<svg onload={RUN}>", f"<svg><script>{RUN}</script></svg>", f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<svg><a xlink:href=javascript:{RUN}><text>x</text></a></svg>", f"<body onload={RUN}>", f"<iframe srcdoc='<script>parent.{RUN}</script>'>",
    f"<iframe src=javascript:{RUN}>", f"<object data=javascript:{RUN}>", f"<embed src=javascript:{RUN}>", f"<details open ontoggle={RUN}>",
    f"<video><source onerror={RUN}></video>", f"<audio src=x onerror={RUN}>", f"<input autofocus onfocus={RUN}>", f"<marquee onstart={RUN}>",
    f"<a href=javascript:{RUN}>x</a>", f"<form action=javascript:{RUN}><button>x", f"<math><mtext><script>{RUN}</script></mtext></math>",
    f"<style>@import 'javascript:{RUN}'</style>", f"<link rel=stylesheet href=data:text/css,x onload={RUN}>", f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>",
    f"<base href=javascript:{RUN}//>", f"<template><script>{RUN}</script></template>", f"<noscript><img src=x onerror={RUN}></noscript>", f"--><script>{RUN}</script>",
]
WAYS = [lambda text: text, lambda text: '{"' + text.replace('"', "'") + '": "' + text.replace('"', "'") + '"}', lambda text: f"# {text}\n\n- **{text}**\n- `{text}`"]
HOSTILE = [way(text) for way in WAYS for text in MARKUP] + [
    f"javascript:{RUN}", f"[link](javascript:{RUN}) **x**", f"**[x](https://x/\"onmouseover={RUN})**", f"data:image/svg+xml,<svg/onload={RUN}>",
    f"data:text/html,<script>{RUN}</script>", "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0id2luZG93LnJhbj0xIi8+",
    '{"__proto__": {"ran": 1}}', f"https://x.invalid/'onerror='{RUN}.png", "\u202egnp.exe \u2066x\u2069", "x" * 300000, "[" * 5000,
    '{"a":' * 2000 + "1" + "}" * 2000, f"```\n<script>{RUN}</script>\n```", "# " * 2000, "**" * 5000, "evil.svg", "{{constructor.constructor('window.ran=1')()}}",
]
assert len(HOSTILE) > 100


class Labeling(PageTest):
    def label_all(self, count):
        before = None
        seen = []
        for _ in range(count):
            before = self.wait.until(lambda _: self.anna.shown() if self.anna.shown() != before else None)
            seen.append(before)
            self.anna.press("1" if int(before) % 2 == 0 else "2")
        return seen

    def test_a_campaign_is_labeled_by_keyboard(self):
        self.start([f"example {i}" for i in range(40)], selection={"batch": 4}, stop={"labels": "12"})
        self.assertEqual(len(set(self.label_all(12))), 12)
        self.wait.until(lambda _: "done" in self.anna.text_of("h1"))
        self.assertEqual(self.labels(), 12)
        items = self.daemon.call("ItemService/ListItems", {"campaign": "c", "state": "ITEM_STATE_LABELED"})[1]["items"]
        self.assertEqual({item["itemId"]: item["label"] for item in items},
                         {item["itemId"]: "even" if int(item["itemId"]) % 2 == 0 else "odd" for item in items})
        self.assertEqual(self.errors_in_console(), [])

    def test_an_answer_can_be_changed_and_a_task_skipped(self):
        self.start([f"example {i}" for i in range(20)], selection={"batch": 4})
        first = self.wait.until(lambda _: self.anna.shown())
        self.anna.press("1")
        self.wait.until(lambda _: self.labels() == 1)
        self.anna.press("u")
        self.wait.until(lambda page: page.find_elements(By.CSS_SELECTOR, ".payload.earlier"))
        self.anna.press("2")
        item = lambda _: self.daemon.call("ItemService/GetItem", {"campaign": "c", "itemId": first})[1]["item"]
        self.wait.until(lambda page: item(page).get("label") == "odd")
        second = self.wait.until(lambda _: self.anna.shown())
        self.anna.press("s")
        self.wait.until(lambda page: page.find_element(By.TAG_NAME, "dialog")).send_keys("1")
        self.wait.until(lambda _: self.anna.shown() not in (None, second))

    def test_one_of_many_classes_is_found_by_its_name(self):
        classes = [f"species {i}" for i in range(200)]
        self.start([f"example {i}" for i in range(20)], classes=classes, selection={"batch": 4})
        for part, wanted in [("198", "species 198"), ("species 19", "species 19"), ("ECIES 7", "species 7")]:
            item = self.wait.until(lambda _: self.anna.shown())
            self.anna.press("/")
            self.browser.switch_to.active_element.send_keys(part)
            self.assertTrue(0 < len(self.browser.find_elements(By.CSS_SELECTOR, ".class-button:not([hidden])")) < 20)
            self.browser.switch_to.active_element.send_keys(Keys.ENTER)
            self.wait.until(lambda _, last=item: self.anna.shown() not in (None, last))
            self.wait.until(lambda _, one=item: self.daemon.call("ItemService/GetItem", {"campaign": "c", "itemId": one})[1]["item"].get("label"))
            self.assertEqual(self.daemon.call("ItemService/GetItem", {"campaign": "c", "itemId": item})[1]["item"]["label"], wanted)
        # What finds nothing, and what was not typed, is no answer.
        item = self.anna.shown()
        for part in ("", "no such class"):
            self.anna.press("/")
            self.browser.switch_to.active_element.send_keys(part + Keys.ENTER + Keys.ESCAPE)
        self.assertEqual(self.anna.shown(), item)
        self.assertEqual(self.labels(), 3)

    def test_answers_given_while_the_daemon_is_away_arrive_once(self):
        self.start([f"example {i}" for i in range(40)], selection={"batch": 8}, stop={"labels": "8"})
        self.label_all(2)
        self.wait.until(lambda _: self.labels() == 2)
        self.wait.until(lambda page: page.execute_script("return !!document.querySelector('.payload')"))
        self.daemon.kill()
        before = self.anna.shown()
        self.anna.press("1" if int(before) % 2 == 0 else "2")
        self.wait.until(lambda _: "kept here" in self.anna.text_of(".label-status"))
        self.daemon.start()
        for _ in range(5):
            before = self.wait.until(lambda _, last=before: self.anna.shown() if self.anna.shown() != last else None)
            self.anna.press("1" if int(before) % 2 == 0 else "2")
        self.wait.until(lambda _: "done" in self.anna.text_of("h1"))
        self.assertEqual(self.labels(), 8)

    def test_hostile_payloads_are_shown_and_never_run(self):
        (self.daemon.pools / "evil.svg").write_text(f"<svg xmlns='http://www.w3.org/2000/svg' onload='{RUN}'><script>{RUN}</script></svg>")
        self.start(HOSTILE, selection={"batch": len(HOSTILE)}, stop={"labels": str(len(HOSTILE))})
        for _ in HOSTILE:
            item = self.wait.until(lambda _: self.anna.shown())
            self.assertIsNone(self.browser.execute_script("return window.ran ?? Object.prototype.ran ?? null"), HOSTILE[int(item)][:80])
            elements = "script, iframe, svg, object, embed, style, link, meta, base, form, input, details, template, [onerror], [onload]"
            found = "return document.querySelectorAll('.payload :is(' + arguments[0] + ')').length"
            self.assertEqual(self.browser.execute_script(found, elements), 0, HOSTILE[int(item)][:80])
            # It is shown: the text as it is, and characters that would turn it around by their numbers.
            text = self.browser.execute_script("return document.querySelector('.payload').textContent")
            if int(item) < len(MARKUP):
                self.assertIn(HOSTILE[int(item)], text)
            if "\u202e" in HOSTILE[int(item)]:
                self.assertEqual(text, "⟨U+202E⟩gnp.exe ⟨U+2066⟩x⟨U+2069⟩")
            self.anna.press("1")
            self.wait.until(lambda _, last=item: self.anna.shown() != last)
        self.wait.until(lambda _: self.labels() == len(HOSTILE))


if __name__ == "__main__":
    unittest.main()
