// The examples of a campaign by state, and one of them: payload, votes, history, why it was selected, decisions.

import { call, loadPayload, newRequestId } from "./api.js";
import { actionButton, ago, choose, h, number, percent, replace, toast } from "./dom.js";
import { decodePayload, releasePayload, renderPayload } from "./payload.js";

const STATES = ["UNSPECIFIED", "OPEN", "LEASED", "LABELED", "DISPUTED", "SET_ASIDE", "UNLABELED"];
const stateText = (state) => (state === "UNSPECIFIED" ? "all selected" : state.toLowerCase().replace("_", " "));
const plainState = (state) => stateText((state ?? "").replace("ITEM_STATE_", ""));

// What happened, as people say it; other kinds by their names.
function eventText({ kind, annotator: who, value, reason, round }) {
  const name = kind.replace("ITEM_EVENT_KIND_", "").toLowerCase();
  const text = {
    item_batched: `selected for round ${round ?? ""}`, item_taken: "taken from the stream", lease_granted: `given to ${who}`,
    label_submitted: `${who} answered ${value}`, label_changed: `${who} changed the answer to ${value}`, label_withdrawn: `${who} withdrew the answer`,
    label_imported: `label ${value} imported${who ? ` from ${who}` : ""}`, task_skipped: `${who} skipped it`, item_set_aside: "set aside", item_returned: `returned by ${who}`,
    item_disputed: "disputed", item_resolved: `${who} decided ${value}`, votes_accepted: "decided by the votes that it had",
  }[name] ?? name.replaceAll("_", " ");
  return reason ? `${text}: ${reason}` : text;
}

export function itemsScreen(campaign, admin) {
  const stop = new AbortController();
  const options = { signal: stop.signal };
  const named = decodeURIComponent(location.hash.split("/")[4] ?? ""); // a state, or the id of an example
  let state = STATES.includes(named) ? named : "UNSPECIFIED";
  let counts = {};
  let classes = [];
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "State" });
  const list = h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Examples" });
  const detail = h("section", { "aria-live": "polite" });
  const search = h("input", { type: "search", id: "search", maxLength: 200, placeholder: "id, label, annotator or reason", "aria-label": "Search" });
  const element = h("main", { id: "main" },
    h("p", null, h("a", { href: `#/campaign/${encodeURIComponent(campaign)}` }, `‹ ${campaign}`)), h("h1", null, "Examples"), tabs,
    h("form", { class: "row search", role: "search", onsubmit: (event) => {
      event.preventDefault();
      load();
    } }, search, h("button", null, "Search"), h("button", { type: "button", class: "quiet", onclick: () => open(search.value.trim()) }, "Open this id")), detail, list);

  function drawTabs() {
    replace(tabs, STATES.map((one) => h("button", { type: "button", class: "small", "aria-current": one === state ? "true" : null, onclick: () => {
      state = one;
      drawTabs();
      load();
    } }, stateText(one), counts[one] !== undefined && h("span", { class: "muted" }, ` ${number(counts[one])}`))));
  }

  async function load() {
    const wanted = state;
    const text = search.value.trim();
    const rows = h("tbody");
    const more = h("div");
    const page = async (pageToken) => {
      const answer = await call("ItemService/ListItems", { campaign, state: `ITEM_STATE_${wanted}`, pageSize: 100, pageToken, search: text }, options);
      if (wanted !== state || text !== search.value.trim()) return;
      rows.append(...(answer.items ?? []).map(itemRow));
      replace(more, h("p", { class: "muted" }, text ? `${number(rows.children.length)} found${answer.nextPageToken ? " so far" : ""}` : `${number(rows.children.length)} of ${number(answer.totalSize)}`),
        answer.nextPageToken && actionButton("More", () => page(answer.nextPageToken)));
    };
    replace(list, h("table", null, h("thead", null, h("tr", null, ["Id", "State", "Label", "Votes", "Agreement", "Predicted", "Round"].map((title) => h("th", { scope: "col", class: ["Agreement", "Round"].includes(title) ? "number" : "" }, title)))), rows), more);
    await page("").catch((error) => error.name !== "AbortError" && toast(error.message, "error"));
  }

  function itemRow(item) {
    return h("tr", null, h("td", null, h("button", { type: "button", class: "link", onclick: () => open(item.itemId) }, h("bdi", null, item.itemId))),
      h("td", { class: "word" }, plainState(item.state)), h("td", null, h("bdi", null, item.label ?? "")),
      h("td", null, (item.votes ?? []).map((vote) => `${vote.annotator}: ${vote.withdrawn ? "withdrawn" : vote.value}`).join(", ")),
      h("td", { class: "number" }, item.agreement === undefined ? "" : percent(item.agreement, 0)), h("td", null, item.prediction ?? ""), h("td", { class: "number" }, item.round ?? ""));
  }

  async function open(itemId) {
    if (!itemId) return;
    try {
      const answer = await call("ItemService/GetItem", { campaign, itemId }, options);
      const bytes = decodePayload(answer.payload);
      const whole = bytes.length === Number(answer.payloadBytes ?? 0);
      drawItem(answer, whole ? bytes : await loadPayload(campaign, itemId, stop.signal));
    } catch (error) {
      if (error.name !== "AbortError") show(h("p", { class: "problem card" }, error.message));
    }
  }

  function why(selection) {
    if (!selection) return h("p", { class: "muted" }, "It was not selected so far.");
    const near = (selection.nearestLabeled ?? []).map((other) => `${other.itemId} (${other.label}, ${other.distance.toPrecision(3)})`).join(", ");
    const facts = [["Round", selection.round], ["Rank in the batch", selection.rank], ["Strategy", selection.strategy], ["Predicted class then", selection.predicted],
      ["Leverage", selection.leverage?.toPrecision(4)], ["Rank of its leverage", selection.rankInClass && `${selection.rankInClass} of ${selection.classSize}`],
      ["Gain", selection.gain?.toPrecision(4)], ["Uncertainty", selection.uncertainty?.toPrecision(3)], ["Nearest labeled", near]];
    return h("table", null, h("tbody", null, facts.filter(([, value]) => value).map(([name, value]) => h("tr", null, h("th", { scope: "row" }, name), h("td", null, value)))));
  }

  function show(...children) {
    releasePayload(detail);
    replace(detail, ...children);
  }

  function drawItem({ item, history, selection }, payload) {
    const decide = async (method, more) => {
      await call(`ItemService/${method}`, { campaign, itemId: item.itemId, requestId: newRequestId(), ...more });
      open(item.itemId);
      load();
      count().catch(() => {});
    };
    show(h("div", { class: "card" },
      h("div", { class: "row" }, h("h2", null, h("bdi", null, item.itemId)), h("span", { class: "badge" }, plainState(item.state)),
        h("button", { type: "button", class: "quiet small", onclick: () => show() }, "Close")),
      item.reason && h("p", { class: "muted" }, item.reason), h("div", { class: "payload" }, renderPayload(payload)),
      admin && h("div", { class: "row" }, actionButton("Decide its label", async () => {
        const value = await choose("Which label does it have?", classes.map((name) => ({ text: name, value: name })));
        if (value !== null) await decide("ResolveItem", { value, reason: "decided on the page" });
      }), ["ITEM_STATE_SET_ASIDE", "ITEM_STATE_DISPUTED"].includes(item.state) && actionButton("Return it to the pool", () => decide("ReturnItem", { reason: "returned on the page" }))),
      h("div", { class: "dashboard" }, h("div", { class: "half" }, h("h3", null, "Why it was selected"), why(selection)),
        h("div", { class: "half" }, h("h3", null, "What happened to it"), h("ul", null, (history ?? []).map((event) => h("li", null,
          h("bdi", null, eventText(event)), " ", h("span", { class: "muted" }, ago(event.time)))))))));
  }

  async function count() {
    const { campaign: now } = await call("CampaignService/GetCampaign", { campaign }, options);
    classes = now.spec?.classes ?? [];
    const items = now.items ?? {};
    counts = { OPEN: items.open ?? 0, LEASED: items.leased ?? 0, LABELED: items.labeled ?? 0, DISPUTED: items.disputed ?? 0, SET_ASIDE: items.setAside ?? 0, UNLABELED: items.unlabeled ?? 0 };
    drawTabs();
  }

  drawTabs();
  load();
  count().catch(() => {});
  if (named && !STATES.includes(named)) open(named);
  return { element, leave: () => {
    stop.abort();
    releasePayload(detail);
  } };
}
