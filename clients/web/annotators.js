// The annotators of a campaign: how good they are, who gets no tasks and why, and labels that are likely wrong.

import { call, newRequestId } from "./api.js";
import { actionButton, ago, ask, h, number, percent, replace, seconds, toast } from "./dom.js";

const LEAST_DRIFT = -3; // in standard errors; below is hardly chance
const ERRORS = 100;

export function annotatorsScreen(campaign, may) {
  const stop = new AbortController();
  const options = { signal: stop.signal };
  const path = `#/campaign/${encodeURIComponent(campaign)}`;
  const summary = h("section", { class: "card" }, h("p", { class: "muted" }, "Reading the labels ..."));
  const table = h("section"), errors = h("section", { class: "card" }, h("p", { class: "muted" }, "Looking for likely errors ..."));
  const element = h("main", { id: "main" }, h("p", null, h("a", { href: path }, `‹ ${campaign}`)), h("h1", null, "Annotators"),
    h("div", { class: "stack wide-gap" }, summary, table, errors));
  let opened = new Set(); // whose confusion is shown

  async function load() {
    const answer = await call("AnnotatorService/ListAnnotators", { campaign }, options);
    draw(answer);
  }

  function draw({ annotators = [], classes = [], cohenKappa, fleissKappa, krippendorffAlpha, votes, items }) {
    const figure = (title, value) => value !== undefined && h("div", null, h("dt", null, title), h("dd", null, value));
    const kappa = (value) => value?.toFixed(2);
    replace(summary, h("dl", { class: "figures" }, figure("Annotators", number(annotators.length)), figure("Votes", number(votes)), figure("Examples with votes", number(items)),
      figure("Cohen's kappa", kappa(cohenKappa)), figure("Fleiss' kappa", kappa(fleissKappa)), figure("Krippendorff's alpha", kappa(krippendorffAlpha))),
    h("p", { class: "muted small-text" }, "Accuracy is the expected share of right answers under the consensus of all annotators, with a 95% interval. Kappa is the agreement with others beyond chance."));
    const heads = ["Annotator", "Votes", "Accuracy", "Gold", "Kappa", "Skips", "Time", "Last seen", ""];
    replace(table, annotators.length === 0 ? h("p", { class: "card" }, "No annotators yet.")
      : h("div", { class: "scroll card", tabIndex: 0, role: "region", "aria-label": "Annotators" }, h("table", { class: "quality" },
        h("thead", null, h("tr", null, heads.map((title) => h("th", { scope: "col", class: ["Votes", "Gold", "Kappa", "Skips", "Time"].includes(title) ? "number" : "" }, title || h("span", { class: "visually-hidden" }, "Decision"))))),
        h("tbody", null, annotators.map((one) => rows(one, classes))))));
  }

  function rows(one, classes) {
    const paused = Boolean(one.pausedReason);
    const drifts = (one.driftZ ?? 0) < LEAST_DRIFT;
    const cell = (value) => h("td", { class: "number" }, value ?? "");
    return [h("tr", null,
      h("th", { scope: "row" }, h("bdi", null, one.name), paused && [" ", h("span", { class: "badge warn" }, "paused")], drifts && [" ", h("span", { class: "badge warn" }, "getting worse")]),
      cell(number(one.votes)), h("td", null, accuracy(one)), cell(Number(one.goldVotes ?? 0) ? `${one.goldRight ?? 0} of ${one.goldVotes}` : ""),
      cell(one.kappa?.toFixed(2)), cell(percent(one.skipRate ?? 0, 0)), cell(one.answerSeconds === undefined ? "" : seconds(one.answerSeconds)), h("td", { class: "word" }, one.lastSeen ? ago(one.lastSeen) : ""),
      h("td", null, may.administer() && (paused
        ? actionButton("Resume", () => decide("ResumeAnnotator", one.name, "Resume", "Why? It is stored with the decision."), { class: "small", "aria-label": `Resume ${one.name}` })
        : actionButton("Pause", () => decide("PauseAnnotator", one.name, "Pause", "Why? The annotator is told."), { class: "small", "aria-label": `Pause ${one.name}` })))),
    (paused || (one.confusion ?? []).length > 0) && h("tr", { class: "more" }, h("td", { colSpan: 9 },
      paused && h("p", null, "Paused: ", h("bdi", null, one.pausedReason)),
      (one.confusion ?? []).length > 0 && confusion(one, classes)))];
  }

  // The estimate as a dot on its interval, from 0 to 1, and in words.
  function accuracy({ accuracy: share, accuracyLow = 0, accuracyHigh = 0 }) {
    if (share === undefined) return h("span", { class: "muted" }, "unknown");
    return [h("strong", null, percent(share, 0)), h("span", { class: "muted" }, ` ${percent(accuracyLow, 0)} to ${percent(accuracyHigh, 0)} `),
      h("meter", { min: 0, max: 1, value: share, "aria-label": "Accuracy" })];
  }

  function confusion({ name, confusion: shares, drift }, classes) {
    const size = classes.length;
    return h("details", { open: opened.has(name), ontoggle: (event) => (event.target.open ? opened.add(name) : opened.delete(name)) },
      h("summary", null, "Answers by true class"), drift !== undefined && h("p", { class: "muted" }, `Accuracy changed by ${percent(drift, 1)} from the earlier to the later half of the votes.`),
      h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": `Answers of ${name} by true class` }, h("table", { class: "slim" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "True class"), classes.map((one) => h("th", { scope: "col" }, h("bdi", null, one))))),
        h("tbody", null, classes.map((one, i) => h("tr", null, h("th", { scope: "row" }, h("bdi", null, one)),
          shares.slice(i * size, (i + 1) * size).map((share, j) => h("td", { class: i === j ? "number right" : "number" }, percent(share, 0)))))))));
  }

  async function decide(method, annotator, action, label) {
    const reason = await ask(`${action} ${annotator}?`, { label, required: true, maxLength: 500, action });
    if (reason === null) return;
    await call(`AnnotatorService/${method}`, { campaign, annotator, reason, requestId: newRequestId() });
    toast(`${annotator} gets ${method === "PauseAnnotator" ? "no more tasks" : "tasks again"}.`);
    await load();
  }

  async function loadErrors() {
    const { errors: found = [], totalSize, labels } = await call("AnnotatorService/ListLabelErrors", { campaign, pageSize: ERRORS }, options);
    replace(errors, h("h2", null, "Likely label errors"),
      h("p", { class: "muted" }, `${number(totalSize)} of ${number(labels)} labels: a classifier that was trained without the example is confident of another class. Open one to see it and decide.`),
      found.length > 0 && h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Likely label errors" }, h("table", null,
        h("thead", null, h("tr", null, ["Example", "Label", "Likely", "Margin"].map((title) => h("th", { scope: "col", class: title === "Margin" ? "number" : "" }, title)))),
        h("tbody", null, found.map((one) => h("tr", null, h("td", null, h("a", { href: `${path}/items/${encodeURIComponent(one.itemId)}` }, h("bdi", null, one.itemId))),
          h("td", null, h("bdi", null, one.label)), h("td", null, h("bdi", null, one.suggested)), h("td", { class: "number" }, (one.margin ?? 0).toFixed(2))))))));
  }

  const failed = (place) => (error) => error.name !== "AbortError" && replace(place, h("p", { class: error.code === "failed_precondition" ? "muted" : "problem" }, error.message));
  load().catch(failed(summary));
  loadErrors().catch(failed(errors));
  return { element, leave: () => stop.abort() };
}
