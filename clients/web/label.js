// The screen on which people label: a payload, the question, one key per class.

import { call, loadPayload } from "./api.js";
import { announce, choose, h, number, replace, toast, waitReason } from "./dom.js";
import { decodePayload, releasePayload, renderMarkdown, renderPayload } from "./payload.js";
import { Work } from "./work.js";

const KEYS = "1234567890abcdefgijklmnopqrtvwxyz"; // without h, s and u, which are commands

// One key per class: its own name if all classes are single digits or letters, otherwise numbers and then letters.
function keysOf(classes) {
  const own = classes.map((name) => name.toLowerCase());
  return own.every((key) => key.length === 1 && KEYS.includes(key)) && new Set(own).size === own.length ? own : [...KEYS].slice(0, classes.length);
}

// For those who do not see the keys.
function classesAloud(classes) {
  if (classes.length > KEYS.length) return `${classes.length} classes; the key / finds one by its name`;
  return classes.map((name, i) => `${keysOf(classes)[i] ?? ""} ${name}`).join(", ");
}

const SKIP_REASONS = [
  { text: "I am not sure; another annotator should answer", value: "SKIP_REASON_UNSURE" },
  { text: "It cannot be labeled: broken, empty or of the wrong kind", value: "SKIP_REASON_BAD_ITEM" },
  { text: "Not now; I may be asked again", value: "SKIP_REASON_NOT_NOW" },
];
const PROGRESS_TIME = 2000;

export function labelScreen(campaign, annotator) {
  const work = new Work(campaign, annotator);
  const screen = h("div", { class: "label-screen" });
  const status = h("div", { class: "label-status", role: "region", "aria-label": "Progress" });
  const stage = h("main", { id: "main", class: "label-stage" });
  let shown = null; // what is on the screen: a task, an earlier answer, or a reason to wait
  let progress = null;
  let progressAt = 0, progressTimer = 0;
  let announced = null; // the question that was read to screen readers
  const payloads = new Map(); // by task
  const stop = new AbortController();
  replace(screen, status, stage);

  // At most once in a while, and once after the last answer.
  function refreshProgress() {
    progressTimer ||= setTimeout(async () => {
      progressAt = Date.now();
      progressTimer = 0;
      const answer = await call("LabelingService/ListLabelingCampaigns", { pageSize: 1000 }, { signal: stop.signal }).catch(() => null);
      progress = answer?.campaigns?.find((entry) => entry.campaign === campaign) ?? progress;
      drawStatus();
    }, Math.max(0, progressAt + PROGRESS_TIME - Date.now()));
  }

  function drawStatus() {
    const round = progress && Number(progress.roundItems ?? 0) > 0;
    const budget = Number(progress?.labelBudget ?? 0);
    replace(status,
      h("a", { href: "#/", class: "quiet button" }, "‹ Campaigns"),
      h("strong", { class: "campaign-name" }, campaign),
      round && h("span", { class: "round" }, `Round ${progress.round}: ${number(progress.roundSettled)} of ${number(progress.roundItems)}`,
        h("progress", { max: Number(progress.roundItems), value: Number(progress.roundSettled ?? 0), "aria-label": "Progress of the round" })),
      progress && h("span", { class: "muted" }, `${number(progress.labels)} ${budget ? `of ${number(budget)} ` : ""}labels`),
      h("span", { class: "muted" }, `You: ${number(work.answered)}`),
      work.unsent > 0 && work.away && h("span", { class: "badge warn", role: "status" },
        `No connection: ${work.unsent} answer${work.unsent === 1 ? "" : "s"} kept here`),
      work.tasks[0]?.released && h("span", { class: "badge warn", role: "status" }, work.idle
        ? "Are you still there? Your tasks were given to others; press any key to continue" : "Others may have this example by now; your answer counts all the same"),
      h("button", { type: "button", class: "quiet small", onclick: showHistory }, h("kbd", null, "H"), " Answers"));
  }

  function draw() {
    drawStatus();
    if (shown?.kind === "earlier") return;
    const task = work.tasks[0];
    if (task && shown?.task === task) return;
    if (task) return showTask(task);
    showWaiting();
  }

  function classButtons(classes, chosen, choose) {
    const keys = keysOf(classes);
    return h("div", { class: classes.every((name) => name.length <= 3) ? "classes short" : "classes", role: "group", "aria-label": "Classes" }, classes.map((name, i) => h("button", {
      type: "button", class: `class-button${name === chosen ? " chosen" : ""}`, data: { index: i },
      "aria-pressed": chosen === undefined ? null : String(name === chosen), onclick: () => choose(name),
    }, keys[i] && h("kbd", null, keys[i].toUpperCase()), (keys[i] ?? "").toUpperCase() !== name.toUpperCase() ? h("bdi", null, name) : h("bdi", { class: "visually-hidden" }, name))));
  }

  // More classes than keys are found by their name: "/", a part of it, Enter.
  function classChooser(classes, chosen, choose) {
    const buttons = classButtons(classes, chosen, choose);
    if (classes.length <= KEYS.length) return buttons;
    const matches = () => [...buttons.children].filter((button) => !button.hidden);
    const search = h("input", { type: "search", id: "find-class", autocomplete: "off", placeholder: "Find a class", "aria-label": "Find a class",
      oninput: () => {
        const text = search.value.trim().toLowerCase();
        for (const button of buttons.children) button.hidden = !classes[button.dataset.index].toLowerCase().includes(text);
        const count = matches().length;
        announce(`${count} ${count === 1 ? "class" : "classes"}`);
      },
      onkeydown: (event) => {
        if (event.key === "Escape") {
          search.value = "";
          search.dispatchEvent(new Event("input"));
          stage.querySelector(".payload").focus();
        } else if (event.key === "Enter" && search.value.trim() && matches().length > 0) {
          event.preventDefault();
          const exact = classes.findIndex((name) => name.toLowerCase() === search.value.trim().toLowerCase());
          (exact < 0 ? matches()[0] : buttons.children[exact]).click();
        }
      } });
    return h("div", { class: "find" }, h("div", { class: "row" }, h("kbd", null, "/"), search), buttons);
  }

  // The first line is the question; more lines are guidelines.
  function question(text) {
    const [first, ...rest] = (text || "Which class is it?").split("\n");
    const guidelines = rest.join("\n").trim();
    return [h("h1", { class: "question", dir: "auto" }, first),
      guidelines && h("details", { class: "guidelines" }, h("summary", null, "Guidelines"), renderMarkdown(guidelines))];
  }

  function showTask(task) {
    shown = { kind: "task", task, classes: task.classes, choose: (value) => work.answer(task, value) };
    replace(stage, question(task.question), payloadOf(task), classChooser(task.classes, undefined, shown.choose),
      h("div", { class: "commands" },
        h("button", { type: "button", class: "quiet", onclick: skip }, h("kbd", null, "S"), " Skip"),
        work.history.length > 0 && h("button", { type: "button", class: "quiet", onclick: undo }, h("kbd", null, "U"), " Previous"),
        h("span", { class: "muted item-id" }, h("bdi", null, task.itemId))));
    prepare();
    focusOn(payloadOf(task), announced === task.question ? "" : `${task.question || "Next example"}. ${classesAloud(task.classes)}. `);
    announced = task.question;
  }

  // Without it the focus is lost with the button that had it, and the next example is not announced.
  function focusOn(place, introduction) {
    if (document.querySelector("dialog[open]")) return;
    place.focus({ preventScroll: true });
    announce(`${introduction}${place.textContent.trim().slice(0, 500) || place.querySelector("img, audio, video")?.getAttribute("alt") || "Next example"}`);
  }

  // The payload of a task, rendered once: while a task is on the screen, the next one is loaded.
  function payloadOf(task) {
    let place = payloads.get(task);
    if (!place) {
      place = h("div", { class: "payload", tabIndex: 0, role: "group", "aria-label": "Example", data: { item: task.itemId } });
      payloads.set(task, place);
      fillPayload(place, task);
    }
    return place;
  }

  function prepare() {
    for (const [task, place] of payloads) {
      if (work.tasks.includes(task)) continue;
      payloads.delete(task);
      releasePayload(place);
    }
    if (work.tasks[1]) payloadOf(work.tasks[1]);
  }

  // An earlier answer and a large payload have none at hand.
  async function fillPayload(place, { itemId, payload, largePayloadBytes }) {
    if (!largePayloadBytes && payload !== undefined) return replace(place, renderPayload(decodePayload(payload)));
    replace(place, h("p", { class: "muted" }, largePayloadBytes ? `Loading ${number(largePayloadBytes)} bytes ...` : "Loading ..."));
    try {
      replace(place, renderPayload(await loadPayload(campaign, itemId, stop.signal)));
      if (stop.signal.aborted) releasePayload(place);
    } catch (error) {
      replace(place, h("p", { class: "problem" }, `The payload cannot be loaded: ${error.message}`));
    }
  }

  function showWaiting() {
    shown = { kind: "waiting" };
    const reasons = work.waitingFor.map(waitReason);
    let title = "Looking for tasks ...", text = null;
    if (work.failure) [title, text] = ["This campaign cannot be labeled", work.failure.message];
    else if (work.over) [title, text] = ["This campaign is done", "Thank you. There will be no more tasks."];
    else if (work.away) [title, text] = ["No connection to the server", "Reconnecting. Your answers are kept in this browser."];
    else if (reasons.length) title = "Nothing to label right now";
    replace(stage, h("section", { class: "notice", role: "status" }, h("h1", null, title), text && h("p", null, text),
      !work.over && reasons.length > 0 && [h("p", null, "The campaign waits for:"), h("ul", null, reasons)],
      h("p", null, h("a", { href: "#/", class: "button" }, "All campaigns"))));
    announce(title);
    prepare();
    refreshProgress();
  }

  async function skip() {
    if (shown?.kind !== "task") return;
    const { task } = shown;
    const reason = await choose("Why do you skip it?", SKIP_REASONS);
    if (reason && work.tasks[0] === task) work.skip(task, reason);
  }

  function undo() {
    if (work.history.length === 0) return toast("There is no earlier answer in this browser.");
    const next = shown?.kind === "earlier" ? shown.index + 1 : 0;
    if (next < work.history.length) showEarlier(next);
  }

  function showEarlier(index) {
    const entry = work.history[index];
    const place = h("div", { class: "payload earlier", tabIndex: 0, role: "group", "aria-label": "Example", data: { item: entry.itemId } });
    if (shown?.place) releasePayload(shown.place);
    shown = { kind: "earlier", index, place, classes: entry.classes, choose: (value) => {
      if (value !== entry.value) {
        work.change(entry, value);
        toast(`Changed to ${value}`);
      }
      back();
    } };
    fillPayload(place, entry);
    replace(stage, h("h1", { class: "question" }, "Change an earlier answer?"), place,
      classChooser(entry.classes, entry.value, shown.choose),
      h("div", { class: "commands" },
        h("button", { type: "button", class: "quiet", onclick: back }, h("kbd", null, "Esc"), " Back to the task"),
        index + 1 < work.history.length && h("button", { type: "button", class: "quiet", onclick: undo }, h("kbd", null, "U"), " Before that"),
        h("span", { class: "muted item-id" }, h("bdi", null, entry.itemId))));
    focusOn(place, `Earlier answer: ${entry.value}. `);
  }

  function back() {
    if (shown?.place) releasePayload(shown.place);
    shown = null;
    draw();
  }

  function showHistory() {
    if (work.history.length === 0) return toast("There is no earlier answer in this browser.");
    const dialog = h("dialog", { class: "history", "aria-label": "Your answers", onclose: () => dialog.remove(),
      onkeydown: (event) => event.stopPropagation() },
    h("h2", null, "Your answers"),
    h("ul", { class: "answers" }, work.history.map((entry, i) => h("li", null, h("button", { type: "button", class: "quiet", onclick: () => {
      dialog.close();
      showEarlier(i);
    } }, h("bdi", null, entry.itemId), h("strong", null, entry.value))))),
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"));
    document.body.append(dialog);
    dialog.showModal();
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, dialog")) return;
    const key = event.key.toLowerCase();
    const keys = shown?.classes && key.length === 1 ? keysOf(shown.classes) : [];
    // On some layouts the row of digits has digits only with Shift.
    const digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1];
    const find = document.getElementById("find-class");
    const index = keys.indexOf(keys.includes(key) || digit === undefined ? key : digit);
    const commands = { s: skip, u: undo, h: showHistory, "/": find && (() => find.focus()), escape: shown?.kind === "earlier" ? back : undefined };
    if (commands[key]) {
      event.preventDefault();
      commands[key]();
    } else if (!event.repeat && index >= 0 && shown?.classes && index < shown.classes.length) {
      event.preventDefault();
      shown.choose(shown.classes[index]);
    }
  }

  work.addEventListener("change", draw);
  work.addEventListener("sent", () => {
    drawStatus();
    refreshProgress();
  });
  document.addEventListener("keydown", onKey);
  draw();
  work.start();
  refreshProgress();
  return { element: screen, leave: () => {
    document.removeEventListener("keydown", onKey);
    stop.abort();
    clearTimeout(progressTimer);
    work.stop();
    for (const place of [...payloads.values(), shown?.place]) if (place) releasePayload(place);
  } };
}
