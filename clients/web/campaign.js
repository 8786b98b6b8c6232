// The screen of one campaign: how it learns, who labels, what it waits for, and the buttons that steer it.

import { stateName } from "./app.js";
import { backoff, call, newRequestId, pause, stream } from "./api.js";
import { barChart, lineChart } from "./chart.js";
import { actionButton, choose, h, number, percent, replace, seconds, toast } from "./dom.js";
import { specYaml } from "./create.js";

const STAGES = ["TRAIN", "PREDICT", "PARTITION", "SCORE", "SELECT", "COMMIT"];
const DRAW_TIME = 250;
const LABELS_TIME = 4000;

export function campaignScreen(name, admin) {
  const stop = new AbortController();
  const models = new Map(); // by round
  const labels = { classes: new Map(), annotators: new Map(), curve: new Map(), total: 0 };
  const live = { round: 0, stage: "", done: 0, total: 0, seconds: new Map() };
  let campaign = null, sequence = 0, waitingFor = [], drawing = 0, labelsAt = 0, problem = "";
  const body = h("div", null, h("p", { class: "muted" }, "Loading ..."));
  const element = h("main", { id: "main" }, body);

  const drawSoon = () => (drawing ||= setTimeout(() => {
    drawing = 0;
    if (campaign && !stop.signal.aborted) draw();
  }, DRAW_TIME));

  async function watch() {
    for (let attempt = 0; !stop.signal.aborted;) {
      try {
        await stream("CampaignService/WatchCampaign", { campaign: name, afterSequence: String(sequence) }, (message) => {
          attempt = 0;
          problem = "";
          take(message.event ?? {});
        }, { signal: stop.signal });
      } catch (error) {
        if (error.name === "AbortError") return;
        if (!error.retryable) {
          problem = error.message;
          if (!campaign) replace(body, h("p", { class: "problem" }, problem));
          return;
        }
        problem = "No connection; it is tried again.";
      }
      drawSoon();
      await pause(attempt === 0 ? 1000 : backoff(attempt), stop.signal);
      attempt += 1;
    }
  }

  function take(event) {
    sequence = Math.max(sequence, Number(event.sequence ?? 0));
    if (event.campaign) {
      campaign = event.campaign;
      refreshWaiting();
    }
    if (event.model) models.set(Number(event.model.round), event.model);
    if (event.roundStarted) Object.assign(live, { round: Number(event.roundStarted.round), stage: "", seconds: new Map() });
    if (event.stage) Object.assign(live, { stage: event.stage.stage.replace("STAGE_", ""), done: Number(event.stage.done ?? 0), total: Number(event.stage.total ?? 0) });
    if (event.batch) live.stage = "";
    if (event.labels && campaign) {
      Object.assign(campaign, { labels: event.labels.labels, roundSettled: event.labels.roundSettled, roundItems: event.labels.roundItems });
      refreshLabels();
    }
    drawSoon();
  }

  async function refreshWaiting() {
    const answer = await call("CampaignService/GetCampaign", { campaign: name }, { signal: stop.signal }).catch(() => null);
    if (!answer) return;
    campaign = answer.campaign;
    waitingFor = campaign.waitingFor ?? [];
    refreshLabels();
    drawSoon();
  }

  async function refreshLabels() {
    if (Date.now() - labelsAt < LABELS_TIME) return;
    labelsAt = Date.now();
    const [classes, annotators, curve] = [new Map(), new Map(), new Map()];
    let total = 0;
    const count = (map, key) => map.set(key, (map.get(key) ?? 0) + 1);
    await stream("CampaignService/ExportLabels", { campaign: name }, (message) => {
      for (const label of message.labels ?? []) {
        if (!label.counts) continue;
        total += 1;
        count(classes, label.value);
        count(annotators, label.annotator);
        if (!curve.has(label.annotator)) curve.set(label.annotator, []);
        curve.get(label.annotator).push([total, annotators.get(label.annotator)]);
      }
    }, { signal: stop.signal }).catch(() => {});
    Object.assign(labels, { classes, annotators, curve, total });
    drawSoon();
  }

  const largest = (map) => [...map].sort((a, b) => b[1] - a[1]);

  function learningCurve() {
    const trained = [...models.values()].sort((a, b) => Number(a.round) - Number(b.round));
    const measured = trained.filter((model) => model.accuracy !== undefined);
    const rule = campaign.spec?.stop ?? {};
    const rules = [];
    if (rule.accuracy?.target) rules.push({ y: rule.accuracy.target, text: `ends at ${percent(rule.accuracy.target)}` });
    if (Number(rule.labels ?? 0) > 0) rules.push({ x: Number(rule.labels), text: `ends at ${number(rule.labels)} labels` });
    const series = [];
    if (measured.length) series.push({ name: "accuracy on the validation set", points: measured.map((model) => [Number(model.labels ?? 0), model.accuracy]) });
    series.push({ name: "share of the pool whose prediction did not change", points: trained.slice(1).map((model) => [Number(model.labels ?? 0), 1 - (model.changedShare ?? 0)]) });
    return lineChart({ title: "Learning curve", xName: "labeled examples", series, rules, yRange: [0, 1], format: (value) => percent(value, 0) });
  }

  function roundTimes() {
    const rows = [...models.values()].filter((model) => model.effort).map((model) => [Number(model.round), model.effort.seconds ?? 0, model.trainSeconds ?? 0]);
    return lineChart({ title: "Time of rounds", xName: "round", format: seconds, series: [
      { name: "whole round", points: rows.map(([round, all]) => [round, all]) }, { name: "training", points: rows.map(([round, , train]) => [round, train]) }] });
  }

  function flow() {
    return h("ol", { class: "flow", "aria-label": "Stages of a round" }, STAGES.map((stage) => h("li", { class: live.stage === stage ? "now" : "", "aria-current": live.stage === stage ? "step" : null },
      stage.toLowerCase(), live.stage === stage && live.total > 1 && ` ${live.done} of ${live.total}`)));
  }

  const steer = (text, method, attributes) => actionButton(text, async () => {
    const answer = await call(`CampaignService/${method}Campaign`, { campaign: name, requestId: newRequestId() });
    campaign = answer.campaign ?? campaign;
    waitingFor = campaign.waitingFor ?? [];
    drawSoon();
  }, attributes);

  function buttons() {
    const state = stateName(campaign.state);
    const active = ["running", "waiting"].includes(state);
    return h("div", { class: "row" },
      !["done", "broken", "closing"].includes(state) && h("a", { class: "button", href: `#/label/${encodeURIComponent(name)}` }, "Label"),
      h("a", { class: "button", href: `#/campaign/${encodeURIComponent(name)}/items` }, "Examples"),
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
      }, { class: "danger" }));
  }

  async function extend() {
    const now = Number(campaign.spec?.stop?.labels ?? 0);
    const text = prompt(`Labels after which the campaign ends (now ${now || "no limit"}, ${number(campaign.labels)} given):`, String(now || Number(campaign.labels ?? 0) + 100));
    if (text === null) return;
    if (!/^\d+$/.test(text.trim())) throw new Error("A budget is a number of labels.");
    campaign = (await call("CampaignService/UpdateCampaign", { campaign: name, spec: { stop: { labels: text.trim() } }, updateMask: "stop.labels", requestId: newRequestId() })).campaign;
    toast(`The campaign ends after ${number(text)} labels.`);
    drawSoon();
  }

  async function exportLabels() {
    const columns = ["itemId", "value", "annotator", "time", "kind", "round", "counts", "decision", "agreement"];
    const quote = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
    const lines = [columns.join(",")];
    await stream("CampaignService/ExportLabels", { campaign: name }, (message) => {
      for (const label of message.labels ?? []) lines.push(columns.map((column) => quote(String(label[column] ?? ""))).join(","));
    });
    download(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }), `${name}-labels.csv`);
  }

  async function exportModel() {
    const parts = [];
    await stream("CampaignService/GetModel", { campaign: name }, (message) => {
      if (message.chunk) parts.push(Uint8Array.from(atob(message.chunk), (letter) => letter.charCodeAt(0)));
    });
    download(new Blob(parts), `${name}.model`);
  }

  function draw() {
    const last = [...models.values()].pop();
    const items = campaign.items ?? {};
    const counts = [["labeled", items.labeled], ["open", items.open], ["leased", items.leased], ["disputed", items.disputed], ["set aside", items.setAside], ["unlabeled", items.unlabeled]];
    const figure = (title, value) => h("div", null, h("dt", null, title), h("dd", null, value));
    replace(body,
      h("div", { class: "row" }, h("h1", null, name), h("span", { class: `badge ${stateName(campaign.state)}` }, stateName(campaign.state)), problem && h("span", { class: "badge warn", role: "status" }, problem)),
      campaign.stateReason && h("p", { class: "muted" }, campaign.stateReason), buttons(),
      h("div", { class: "dashboard" },
        h("section", { class: "card" }, h("dl", { class: "figures" },
          figure("Labels", `${number(campaign.labels)}${Number(campaign.spec?.stop?.labels ?? 0) ? ` / ${number(campaign.spec.stop.labels)}` : ""}`),
          figure("Pool", number(campaign.poolRows)), figure("Round", number(campaign.round)),
          figure("Settled", `${number(campaign.roundSettled)} of ${number(campaign.roundItems)}`),
          campaign.accuracy !== undefined && figure("Accuracy", percent(campaign.accuracy)),
          Number(campaign.cost ?? 0) > 0 && figure("Cost", number(campaign.cost)),
          last?.effort && figure("Last round", seconds(last.effort.seconds ?? 0)))),
        h("section", { class: "card half" }, h("h2", null, "Learning curve"), learningCurve()),
        h("section", { class: "card half" }, h("h2", null, "Waits for"),
          waitingFor.length ? h("ul", null, waitingFor.map((reason) => h("li", null, h("bdi", null, reason.text), reason.until && h("span", { class: "muted" }, ` until ${new Date(reason.until).toLocaleTimeString()}`))))
            : h("p", { class: "muted" }, stateName(campaign.state) === "done" ? "Nothing: the campaign is done." : "Nothing at the moment."),
          h("h2", null, "Examples"), h("table", null, h("tbody", null, counts.map(([state, count]) => h("tr", null, h("th", { scope: "row" },
            h("a", { href: `#/campaign/${encodeURIComponent(name)}/items/${state.replace(" ", "_").toUpperCase()}` }, state)), h("td", { class: "number" }, number(count))))))),
        h("section", { class: "card half" }, h("h2", null, "Labels by class"), barChart({ title: "Labels by class", rows: largest(labels.classes) })),
        h("section", { class: "card half" }, h("h2", null, "Labels by annotator"), barChart({ title: "Labels by annotator", rows: largest(labels.annotators) })),
        h("section", { class: "card half" }, h("h2", null, "Labels by annotator over time"), lineChart({ title: "Labels by annotator over time", xName: "labels of all", series: [...labels.curve].slice(0, 8).map(([annotator, points]) => ({ name: annotator, points })) })),
        h("section", { class: "card half" }, h("h2", null, "Rounds"), flow(), roundTimes()),
        h("section", { class: "card" }, h("details", null, h("summary", null, "Specification as YAML"), h("pre", { class: "yaml", tabIndex: 0 }, specYaml(campaign.spec ?? {}))))));
  }

  refreshWaiting();
  watch();
  return { element, leave: () => {
    stop.abort();
    clearTimeout(drawing);
  } };
}

function download(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
