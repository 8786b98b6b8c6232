// The screen of one campaign: how it learns, who labels, what it waits for, and the buttons that steer it.
//
// A part is drawn again only if what it shows has changed, so that an open list stays open and the focus stays.

import { backoff, call, newRequestId, pause, shown, stream } from "./api.js";
import { barChart, flowChart, lineChart } from "./chart.js";
import { specYaml } from "./create.js";
import { actionButton, ago, ask, choose, download, duration, h, number, percent, replace, seconds, stateBadge, stateName, toast, waitReason } from "./dom.js";
import { poolMap } from "./map.js";
import { decodePayload } from "./payload.js";

const STAGES = ["TUNE", "TRAIN", "PREDICT", "PARTITION", "SCORE", "SELECT", "COMMIT"];
const DRAW_TIME = 250;
const REPORT_TIME = 3000;
const REPORT_TRIES = 10;
const STREAM_TIME = 5000; // between two looks at a campaign with a stream, whose rows are no events
const ENDED_TIME = 15000; // until a campaign that is over is asked for again: its budget may be extended
// The columns of `fulcrum campaign export`, and their cells of a label. JSON leaves out what is 0, false or empty.
const quoted = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
// What annotators choose themselves would run in a spreadsheet if it began like a formula.
const harmless = (value) => quoted(/^[=+\-@\t\r]/.test(value ?? "") ? `'${value}` : value);
const ITEM_STATES = { LABELED: "labeled", DISPUTED: "disputed", SET_ASIDE: "set aside", OPEN: "offered", LEASED: "offered" };
const EXPORTED = {
  sequence: (label) => label.sequence, kind: (label) => quoted(label.kind.replace("LABEL_KIND_", "").toLowerCase()), id: (label) => quoted(label.itemId),
  label: (label) => quoted(label.value), annotator: (label) => harmless(label.annotator),
  time: (label) => label.time.replace(/(?:\.(\d+))?Z$/, (_, digits = "") => `.${digits.padEnd(6, "0")}Z`),
  lease_id: (label) => label.leaseId ?? 0, epoch: (label) => label.epoch ?? 0, slot: (label) => label.slot ?? 0, round: (label) => label.round ?? 0,
  cost: (label) => label.cost ?? 0, late: (label) => label.late ?? false, request_id: (label) => harmless(label.requestId), counts: (label) => label.counts ?? false,
  item_state: (label) => quoted(ITEM_STATES[(label.itemState ?? "").replace("ITEM_STATE_", "")] ?? "in pool"), decision: (label) => quoted(label.decision),
  agreement: (label) => label.agreement ?? "", confidence: (label) => label.confidence ?? "", annotator_accuracy: (label) => label.annotatorAccuracy ?? "",
  suggested: (label) => quoted(label.suggested ?? ""),
};

export function campaignScreen(name, may) {
  const admin = may.administer();
  const stop = new AbortController();
  const path = `#/campaign/${encodeURIComponent(name)}`;
  const models = new Map(); // by round
  const live = { round: 0, stage: "", done: 0, total: 0 };
  let campaign = null, sequence = 0, drawing = 0, problem = "";
  let turn = new AbortController(); // of watch(): a stream, or the pause after it
  let resting = false;
  let report = null, reportTimer = 0, reportAt = 0, reportTries = 0;
  const picture = poolMap(name, stop.signal, (itemId) => (location.hash = `${path}/items/${encodeURIComponent(itemId)}`));
  const parts = [];
  const element = h("main", { id: "main" }, h("p", { class: "muted" }, "Loading ..."));

  // ---- parts: what they depend on, and what they show

  const part = (key, draw, attributes) => {
    const place = h("section", attributes);
    parts.push({ place, key, draw, last: null });
    return place;
  };

  function layOut() {
    replace(element,
      part(() => [campaign.state, campaign.stateReason, campaign.stateBy, campaign.conditions, problem], () => [
        h("div", { class: "row" }, h("h1", null, name), stateBadge(campaign.state), problem && h("span", { class: "badge warn", role: "status" }, problem)),
        campaign.spec?.question && h("p", { dir: "auto", class: "lead" }, campaign.spec.question.split("\n")[0]),
        why(),
        (campaign.conditions ?? []).map((one) => h("p", { class: "problem" }, one.reason))], { class: "head" }),
      part(() => [campaign.state, models.size > 0], buttons, { class: "row steer" }),
      h("div", { class: "dashboard" },
        part(() => [campaign, models.size, report?.sequence], figures, { class: "card wide" }),
        h("div", { class: "column" },
          part(() => [[...models.values()].pop(), models.size, campaign.spec?.stop], () => [h("h2", null, "Learning curve"), learningCurve()], { class: "card o1" }),
          part(() => [live, models.size], () => [h("h2", null, "Rounds"), rounds()], { class: "card o4" }),
          part(() => report?.sequence, () => [h("h2", null, "Labels by class"), !report ? h("p", { class: "muted" }, "Loading ...") : barChart({ title: "Labels by class", rows: report.classes.map((one) => [one.value, Number(one.labels ?? 0)]) }), overTime("classes", "Labels by class over time")], { class: "card o5" }),
          part(() => campaign.spec, () => [h("h2", null, "Specification"), h("details", null, h("summary", null, "As YAML"), h("pre", { class: "yaml", tabIndex: 0, "aria-label": "The specification as YAML" }, specYaml(campaign.spec ?? {}))),
            actionButton("Download as YAML", () => download(new Blob([specYaml(campaign.spec ?? {})], { type: "text/yaml" }), `${name}.yaml`), { class: "small" })], { class: "card o8" })),
        h("div", { class: "column" },
          h("section", { class: "card o3" }, h("h2", null, "The pool"), picture.element),
          part(() => [campaign.waitingFor, campaign.items, campaign.state], waiting, { class: "card o2" }),
          part(() => report?.sequence, () => [h("h2", null, "Labels by annotator"), annotators(), overTime("annotators", "Labels by annotator over time")], { class: "card o6" }),
          part(() => report?.sequence, () => [h("h2", null, "Is the model right when it is certain?"), calibration()], { class: "card o7" }))));
  }

  // Why it is in its state, and who paused or ended it.
  function why() {
    const { stateReason = "", stateBy } = campaign;
    const by = ["paused", "done"].includes(stateName(campaign.state)) && stateBy && [stateReason ? "; by " : "By ", h("bdi", null, stateBy)];
    return (stateReason || by) && h("p", { class: "muted" }, h("bdi", null, stateReason), by);
  }

  function draw() {
    if (parts.length === 0) layOut();
    for (const one of parts) {
      const key = JSON.stringify(one.key() ?? null);
      if (key === one.last) continue;
      one.last = key;
      const opened = one.place.querySelector("details[open]") !== null;
      replace(one.place, [one.draw()].flat(Infinity));
      if (opened) one.place.querySelector("details")?.setAttribute("open", "");
    }
  }

  const drawSoon = () => (drawing ||= setTimeout(() => {
    drawing = 0;
    if (campaign && !stop.signal.aborted) draw();
  }, parts.length ? DRAW_TIME : 0));

  // ---- what happens

  async function watch() {
    stop.signal.addEventListener("abort", () => turn.abort());
    document.addEventListener("visibilitychange", () => document.hidden && turn.abort(), { signal: stop.signal });
    for (let attempt = 0; ;) {
      await shown(stop.signal);
      if (stop.signal.aborted) return;
      turn = new AbortController();
      let rest = ENDED_TIME;
      try {
        await stream("CampaignService/WatchCampaign", { campaign: name, afterSequence: String(sequence) }, (message) => {
          attempt = 0;
          problem = "";
          take(message.event ?? {});
        }, { signal: turn.signal });
      } catch (error) {
        if (error.name === "AbortError") continue; // the page is hidden or left
        if (!error.retryable) {
          problem = error.message;
          if (!campaign) replace(element, h("p", { class: "problem" }, problem), h("p", null, h("a", { href: "#/" }, "All campaigns")));
          return;
        }
        problem = "No connection. Reconnecting.";
        rest = backoff(attempt++);
      }
      drawSoon();
      resting = true;
      await pause(rest, turn.signal);
      resting = false;
    }
  }

  // After a change that was made here, a campaign that was over may run again.
  function watchNow() {
    if (resting) turn.abort();
    drawSoon();
  }

  function take(event) {
    sequence = Math.max(sequence, Number(event.sequence ?? 0));
    if (event.campaign) {
      campaign = { ...event.campaign, waitingFor: campaign?.waitingFor };
      refresh();
    }
    if (event.model) models.set(Number(event.model.round), event.model);
    if (event.roundStarted) Object.assign(live, { round: Number(event.roundStarted.round), stage: "TRAIN", done: 0, total: 0 });
    if (event.stage) Object.assign(live, { stage: event.stage.stage?.replace("STAGE_", "") ?? live.stage, done: Number(event.stage.done ?? 0), total: Number(event.stage.total ?? 0) });
    if (event.batch) {
      live.stage = "";
      picture.refresh();
    }
    if (event.labels && campaign) {
      Object.assign(campaign, { labels: event.labels.labels, roundSettled: event.labels.roundSettled, roundItems: event.labels.roundItems });
      reportTries = 0;
      refreshReport();
    }
    drawSoon();
  }

  async function refresh() {
    const answer = await call("CampaignService/GetCampaign", { campaign: name }, { signal: stop.signal }).catch(() => null);
    if (!answer) return;
    campaign = { waitingFor: [], ...answer.campaign };
    if (!["running"].includes(stateName(campaign.state))) live.stage = "";
    refreshReport();
    drawSoon();
  }

  // At most once in a while, and once after the last change.
  function refreshReport() {
    reportTimer ||= setTimeout(async () => {
      reportAt = Date.now();
      const answer = await call("ReportService/GetLabelReport", { campaign: name }, { signal: stop.signal }).catch(() => null);
      reportTimer = 0;
      if (!answer) return;
      // The report of a large campaign is not computed for every label.
      if (Number(answer.sequence ?? 0) < sequence && reportTries++ < REPORT_TRIES) refreshReport();
      if (answer.sequence === report?.sequence) return;
      report = answer;
      drawSoon();
      picture.refresh();
      const now = await call("CampaignService/GetCampaign", { campaign: name }, { signal: stop.signal }).catch(() => null);
      if (now) campaign = { waitingFor: [], ...now.campaign };
      drawSoon();
    }, Math.max(0, reportAt + REPORT_TIME - Date.now()));
  }

  // ---- figures

  const inOrder = () => [...models.values()].sort((a, b) => Number(a.round) - Number(b.round));

  // Labels per second over the last periods that had any.
  function pace() {
    const periods = report?.periods ?? [];
    if (periods.length < 2) return 0;
    const count = (period) => period.classes.reduce((sum, one) => sum + Number(one), 0);
    const last = periods[periods.length - 1], before = periods[Math.max(0, periods.length - 11)];
    const time = (new Date(last.end) - new Date(before.end)) / 1000;
    return time > 0 ? (count(last) - count(before)) / time : 0;
  }

  function expected() {
    const rule = campaign.spec?.stop ?? {};
    const left = Number(rule.labels ?? 0) - Number(campaign.labels ?? 0);
    const spent = Number(campaign.cost ?? 0), perLabel = spent / Math.max(1, Number(campaign.labels ?? 0));
    const facts = [];
    if (left > 0 && pace() > 0 && ["running", "waiting"].includes(stateName(campaign.state))) facts.push(["Expected end", `in ${duration(left / pace())}`]);
    if (spent > 0) facts.push(["Cost", `${number(spent.toFixed(2))}${Number(rule.cost ?? 0) ? ` / ${number(rule.cost)}` : ""}`]);
    if (spent > 0 && left > 0 && stateName(campaign.state) !== "done") facts.push(["Expected cost", number((spent + left * perLabel).toFixed(2))]);
    return facts;
  }

  function figures() {
    const last = inOrder().pop();
    const budget = Number(campaign.spec?.stop?.labels ?? 0), given = Number(campaign.labels ?? 0);
    const figure = (title, value, more) => h("div", null, h("dt", null, title), h("dd", null, value, more));
    return h("dl", { class: "figures" },
      figure("Labels", `${number(given)}${budget ? ` / ${number(budget)}` : ""}`, budget > 0 && h("progress", { max: budget, value: Math.min(given, budget), "aria-label": "Labels of the budget" })),
      figure("Pool", number(campaign.poolRows)), figure("Round", number(campaign.round)),
      figure("Settled in this round", `${number(campaign.roundSettled)} of ${number(campaign.roundItems)}`),
      campaign.accuracy !== undefined && figure("Accuracy", percent(campaign.accuracy)),
      report?.agreement !== undefined && figure("Agreement", percent(report.agreement)),
      campaign.stream && [figure("Rows of the stream", number(campaign.stream.rows)), figure("Taken to be labeled", number(campaign.stream.taken),
        Number(campaign.stream.waitingRows ?? 0) > 0 && h("span", { class: "muted small-text" }, ` ${number(campaign.stream.waitingRows)} wait for the next round`)),
      figure("Windows with drift", number(campaign.stream.driftAlarms), campaign.stream.drifting && h("span", { class: "badge warn" }, "drifting now"))],
      expected().map(([title, value]) => figure(title, value)),
      last?.effort && figure("Last round took", seconds(last.effort.seconds ?? 0)));
  }

  function learningCurve() {
    const trained = inOrder();
    const measured = trained.filter((model) => model.accuracy !== undefined);
    const rule = campaign.spec?.stop ?? {};
    const at = (model) => Number(model.labels ?? 0);
    const rules = [];
    if (rule.accuracy?.target) rules.push({ y: rule.accuracy.target, text: `ends at ${Number((100 * rule.accuracy.target).toFixed(2))}% accuracy` });
    if (rule.stable?.rounds) rules.push({ y: 1 - (rule.stable.share ?? 0.001), text: `ends if stable for ${rule.stable.rounds} rounds` });
    if (Number(rule.labels ?? 0) > 0 && Number(campaign.spec?.labeling?.overlap ?? 1) === 1) rules.push({ x: Number(rule.labels), text: `ends at ${number(rule.labels)} labels` });
    const series = [];
    if (measured.length) series.push({ name: "accuracy on the validation set", points: measured.map((model) => [at(model), model.accuracy]) });
    series.push({ name: "predictions of the pool that did not change", points: trained.slice(1).map((model) => [at(model), 1 - (model.changedShare ?? 0)]) });
    const more = [Number(rule.labels ?? 0) > 0 && Number(campaign.spec?.labeling?.overlap ?? 1) !== 1 && `${number(rule.labels)} labels of annotators`, rule.rounds && `${rule.rounds} rounds`, rule.cost && `a cost of ${number(rule.cost)}`, rule.plateau?.rounds && `${rule.plateau.rounds} rounds without improvement`].filter(Boolean);
    return [lineChart({ title: "Learning curve", xName: "labeled examples", series, rules, yRange: [0, 1], format: (value) => percent(value, 0) }),
      more.length > 0 && h("p", { class: "muted small-text" }, `It ${rules.length ? "also " : ""}ends after ${more.join(", or ")}.`)];
  }

  function waiting() {
    const items = campaign.items ?? {};
    const counts = [["labeled", items.labeled], ["open", items.open], ["leased", items.leased], ["disputed", items.disputed], ["set aside", items.setAside], ["unlabeled", items.unlabeled]];
    const reasons = campaign.waitingFor ?? [];
    const stuck = Number(items.disputed ?? 0) + Number(items.setAside ?? 0);
    return [h("h2", null, "Waits for"),
      reasons.length ? h("ul", null, reasons.map(waitReason))
        : h("p", { class: "muted" }, !campaign.waitingFor ? "Loading ..." : stateName(campaign.state) === "done" ? "Nothing: the campaign is done." : "Nothing at the moment."),
      stuck > 0 && h("p", null, h("a", { class: "button", href: `${path}/items/${Number(items.disputed ?? 0) ? "DISPUTED" : "SET_ASIDE"}` }, `Decide ${number(stuck)} disputed or set aside`)),
      h("h2", null, "Examples"), h("table", null, h("tbody", null, counts.map(([state, count]) => h("tr", null, h("th", { scope: "row" },
        h("a", { href: `${path}/items/${state.replace(" ", "_").toUpperCase()}` }, state)), h("td", { class: "number" }, number(count))))))];
  }

  function rounds() {
    const trained = inOrder();
    const last = trained[trained.length - 1];
    const times = new Map((last?.effort?.stages ?? []).map((one) => [one.stage.replace("STAGE_", ""), one.seconds ?? 0]));
    // Settings are chosen in some rounds only.
    const tuned = live.stage === "TUNE" || trained.some((model) => model.effort?.stages?.some((one) => one.stage === "STAGE_TUNE"));
    const stages = STAGES.filter((stage) => stage !== "TUNE" || tuned).map((stage) => ({ name: stage.toLowerCase(), now: live.stage === stage,
      text: live.stage === stage ? (live.total > 1 ? `${live.done} of ${live.total}` : "now") : times.has(stage) ? seconds(times.get(stage)) : "" }));
    const series = STAGES.filter((stage) => trained.some((model) => model.effort?.stages?.some((one) => one.stage === `STAGE_${stage}`)))
      .map((stage) => ({ name: stage.toLowerCase(), points: trained.map((model) => [Number(model.round), model.effort?.stages?.find((one) => one.stage === `STAGE_${stage}`)?.seconds ?? 0]) }));
    series.unshift({ name: "whole round", points: trained.filter((model) => model.effort).map((model) => [Number(model.round), model.effort.seconds ?? 0]) });
    return [flowChart({ title: "Stages of a round, with the times of the last one", stages }),
      h("p", { class: "muted small-text", role: "status" }, live.stage ? `Round ${live.round} runs: ${live.stage.toLowerCase()}.` : trained.length ? `Times of round ${last.round}.` : "The first model needs labels of two classes."),
      lineChart({ title: "Time of rounds by stage", xName: "round", format: seconds, series }),
      last?.tuning?.reason && h("p", { class: "muted small-text" }, `Classifier: ${last.tuning.reason}`)];
  }

  function overTime(of, title) {
    const periods = report?.periods ?? [];
    if (periods.length < 2) return null;
    const names = of === "classes" ? report.classes.map((one) => one.value) : report.annotators.slice(0, 8).map((one) => one.annotator);
    const began = new Date(periods[0].end);
    const span = (new Date(periods[periods.length - 1].end) - began) / 1000;
    const [unit, unitName] = span > 172800 ? [86400, "days"] : span > 7200 ? [3600, "hours"] : span > 180 ? [60, "minutes"] : [1, "seconds"];
    return lineChart({ title, xName: `${unitName} since the first labels`, series: names.slice(0, 10).map((one, i) => ({ name: one,
      points: periods.map((period) => [(new Date(period.end) - began) / 1000 / unit, Number(period[of]?.[i] ?? 0)]) })) });
  }

  function annotators() {
    if (!report?.annotators?.length) return h("p", { class: "muted" }, report ? "No data yet." : "Loading ...");
    return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Annotators" }, h("table", { class: "slim" },
      h("thead", null, h("tr", null, ["Annotator", "Labels", "Agrees", "Changed", "Last label"].map((title, i) => h("th", { scope: "col", class: i > 0 && i < 4 ? "number" : "" }, title)))),
      h("tbody", null, report.annotators.slice(0, 20).map((one) => h("tr", null, h("td", null, h("bdi", null, one.annotator)), h("td", { class: "number" }, number(one.labels)),
        h("td", { class: "number" }, Number(one.compared ?? 0) ? percent(Number(one.agreeing ?? 0) / Number(one.compared), 0) : ""), h("td", { class: "number" }, Number(one.changed ?? 0) || ""), h("td", null, one.lastAt ? ago(one.lastAt) : ""))))));
  }

  function calibration() {
    const bins = report?.calibration ?? [];
    if (bins.length === 0) return h("p", { class: "muted" }, !report ? "Loading ..." : "Examples that were selected with a model and then labeled are compared here.");
    const share = (bin) => Number(bin.correct ?? 0) / Number(bin.items);
    const all = bins.reduce((sum, bin) => [sum[0] + Number(bin.correct ?? 0), sum[1] + Number(bin.items)], [0, 0]);
    return [lineChart({ title: "Share of correct predictions by certainty", xName: "certainty of the model", xRange: [0, 1], yRange: [0, 1], xFormat: (value) => percent(value, 0), format: (value) => percent(value, 0), dots: true,
      series: [{ name: "correct predictions", points: bins.map((bin) => [bin.certainty ?? 0, share(bin)]) }] }),
    h("p", { class: "muted small-text" }, `Of ${number(all[1])} examples, the model had predicted ${percent(all[0] / all[1])} correctly before they were labeled. Selected examples are harder than most.`)];
  }

  // ---- steering

  const steer = (text, method, attributes) => actionButton(text, async () => {
    const answer = await call(`CampaignService/${method}Campaign`, { campaign: name, requestId: newRequestId() });
    campaign = answer.campaign ?? campaign;
    watchNow();
  }, attributes);

  function buttons() {
    const state = stateName(campaign.state);
    const active = ["running", "waiting"].includes(state);
    return [
      may.label() && !["done", "broken", "closing"].includes(state) && h("a", { class: "button", href: `#/label/${encodeURIComponent(name)}` }, "Label"),
      h("a", { class: "button", href: `${path}/items` }, "Examples"),
      h("a", { class: "button", href: `${path}/annotators` }, "Annotators"),
      admin && ["created", "failed", "quarantined"].includes(state) && steer("Start", "Start", { class: "primary" }),
      admin && active && steer("Pause", "Pause"),
      admin && state === "paused" && steer("Resume", "Resume", { class: "primary" }),
      admin && !["created", "broken"].includes(state) && actionButton("Extend the budget", extend),
      actionButton("Export labels", exportLabels),
      models.size > 0 && actionButton("Download the model", exportModel),
      admin && (active || state === "paused") && actionButton("Stop", async () => {
        if (await choose(`End ${name}? Its results remain.`, [{ text: "End it", value: true, class: "danger" }])) {
          campaign = (await call("CampaignService/StopCampaign", { campaign: name, requestId: newRequestId() })).campaign;
          drawSoon();
        }
      }, { class: "danger" })];
  }

  // The rules by which it ends, and what to ask for each. Labels can always be limited.
  function limits() {
    const rule = campaign.spec?.stop ?? {}, given = Number(campaign.labels ?? 0), spent = Number(campaign.cost ?? 0);
    const labels = Number(rule.labels ?? 0);
    return [
      { name: "labels", text: "Labels", now: labels || "no limit", so: `given so far: ${number(given)}`, next: (labels || given) + 100, min: 1, spec: (value) => ({ labels: value }), path: "stop.labels" },
      rule.rounds && { name: "rounds", text: "Rounds", now: rule.rounds, so: `so far: ${number(campaign.round)}`, next: rule.rounds + 10, min: 1, spec: (value) => ({ rounds: Number(value) }), path: "stop.rounds" },
      rule.cost && { name: "cost", text: "Cost", now: rule.cost, so: `spent so far: ${number(spent.toFixed(2))}`, next: 2 * rule.cost, min: 0, step: "any", spec: (value) => ({ cost: Number(value) }), path: "stop.cost" },
      rule.accuracy?.target && { name: "accuracy", text: "Accuracy", now: rule.accuracy.target, so: "on the validation set", next: Math.min(1, rule.accuracy.target + 0.01), min: 0, max: 1, step: "any",
        spec: (value) => ({ accuracy: { target: Number(value) } }), path: "stop.accuracy.target" },
    ].filter(Boolean);
  }

  async function extend() {
    const all = limits();
    const limit = all.length === 1 ? all[0] : await choose("Which limit?", all.map((one) => ({ text: `${one.text}: ${one.now}`, value: one })));
    if (limit === null) return;
    const { min, max, step } = limit;
    const text = await ask("Extend the budget", { label: `${limit.text} after which the campaign ends. Now: ${typeof limit.now === "number" ? number(limit.now) : limit.now}; ${limit.so}.`,
      value: String(limit.next), type: "number", min, max, step, required: true, action: "Set" });
    if (text === null) return;
    campaign = (await call("CampaignService/UpdateCampaign", { campaign: name, spec: { stop: limit.spec(text) }, updateMask: limit.path, requestId: newRequestId() })).campaign;
    toast(limit.name === "accuracy" ? `The campaign ends at an accuracy of ${text}.` : `The campaign ends after ${number(text)} ${limit.name === "cost" ? "in costs" : limit.name}.`);
    watchNow();
  }

  async function exportLabels() {
    const lines = [Object.keys(EXPORTED).join(",")];
    await stream("CampaignService/ExportLabels", { campaign: name, errors: true }, (message) => {
      for (const label of message.labels ?? []) lines.push(Object.values(EXPORTED).map((cell) => cell(label)).join(","));
    });
    download(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }), `${name}-labels.csv`);
  }

  async function exportModel() {
    const format = await choose("Which format?", [{ text: "ONNX, for other programs", value: "ONNX" }, { text: "LIBSVM's text format", value: "LIBSVM" }, { text: "Fulcrum's own", value: "FULCRUM" }]);
    if (format === null) return;
    const chunks = [];
    await stream("CampaignService/GetModel", { campaign: name, format: `MODEL_FORMAT_${format}` }, (message) => {
      if (message.chunk) chunks.push(decodePayload(message.chunk));
    });
    download(new Blob(chunks), `${name}.${{ ONNX: "onnx", LIBSVM: "libsvm", FULCRUM: "model" }[format]}`);
  }

  refresh();
  picture.refresh();
  watch();
  const looking = setInterval(() => campaign?.stream && !document.hidden && refresh(), STREAM_TIME);
  return { element, leave: () => {
    stop.abort();
    clearInterval(looking);
    clearTimeout(drawing);
    clearTimeout(reportTimer);
  } };
}
