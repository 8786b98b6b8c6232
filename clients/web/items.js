// The examples of a campaign by state, and one of them: payload, votes, history, why it was selected, decisions.

import { call, newRequestId } from "./api.js";
import { actionButton, ago, choose, h, number, percent, replace, toast } from "./dom.js";
import { decodePayload, renderPayload } from "./payload.js";

const STATES = ["UNSPECIFIED", "OPEN", "LEASED", "LABELED", "DISPUTED", "SET_ASIDE", "UNLABELED"];
const stateText = (state) => (state === "UNSPECIFIED" ? "all selected" : state.toLowerCase().replace("_", " "));
const plainState = (state) => stateText((state ?? "").replace("ITEM_STATE_", ""));

export function itemsScreen(campaign, admin) {
  const stop = new AbortController();
  const options = { signal: stop.signal };
  let state = STATES.find((one) => location.hash.endsWith(`/items/${one}`)) ?? "UNSPECIFIED";
  let classes = [];
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "State" });
  const list = h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Examples" });
  const detail = h("section", { "aria-live": "polite" });
  const search = h("input", { type: "search", placeholder: "Id of an example", "aria-label": "Id of an example" });
  const element = h("main", { id: "main" },
    h("p", null, h("a", { href: `#/campaign/${encodeURIComponent(campaign)}` }, `‹ ${campaign}`)), h("h1", null, "Examples"), tabs,
    h("form", { class: "row", role: "search", onsubmit: (event) => {
      event.preventDefault();
      open(search.value.trim());
    } }, search, h("button", null, "Show")), detail, list);

  function drawTabs() {
    replace(tabs, STATES.map((one) => h("button", { type: "button", class: "small", "aria-current": one === state ? "true" : null, onclick: () => {
      state = one;
      drawTabs();
      load();
    } }, stateText(one))));
  }

  async function load() {
    const wanted = state;
    const rows = h("tbody");
    const more = h("div");
    const page = async (pageToken) => {
      const answer = await call("ItemService/ListItems", { campaign, state: `ITEM_STATE_${wanted}`, pageSize: 100, pageToken }, options);
      if (wanted !== state) return;
      rows.append(...(answer.items ?? []).map(itemRow));
      replace(more, h("p", { class: "muted" }, `${number(rows.children.length)} of ${number(answer.totalSize)}`),
        answer.nextPageToken && actionButton("More", () => page(answer.nextPageToken)));
    };
    replace(list, h("table", null, h("thead", null, h("tr", null, ["Id", "State", "Label", "Votes", "Agreement", "Predicted", "Round"].map((title) => h("th", { scope: "col" }, title)))), rows), more);
    await page("").catch((error) => error.name !== "AbortError" && toast(error.message, "error"));
  }

  function itemRow(item) {
    return h("tr", null, h("td", null, h("button", { type: "button", class: "quiet small", onclick: () => open(item.itemId) }, h("bdi", null, item.itemId))),
      h("td", null, plainState(item.state)), h("td", null, item.label ?? ""),
      h("td", null, (item.votes ?? []).map((vote) => `${vote.annotator}: ${vote.withdrawn ? "withdrawn" : vote.value}`).join(", ")),
      h("td", { class: "number" }, item.agreement === undefined ? "" : percent(item.agreement, 0)), h("td", null, item.prediction ?? ""), h("td", { class: "number" }, item.round ?? ""));
  }

  async function open(itemId) {
    if (!itemId) return;
    try {
      drawItem(await call("ItemService/GetItem", { campaign, itemId }, options));
    } catch (error) {
      if (error.name !== "AbortError") replace(detail, h("p", { class: "problem card" }, error.message));
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

  function drawItem({ item, payload, history, selection }) {
    const decide = async (method, more) => {
      await call(`ItemService/${method}`, { campaign, itemId: item.itemId, requestId: newRequestId(), ...more });
      open(item.itemId);
      load();
    };
    replace(detail, h("div", { class: "card" },
      h("div", { class: "row" }, h("h2", null, h("bdi", null, item.itemId)), h("span", { class: "badge" }, plainState(item.state)),
        h("button", { type: "button", class: "quiet small", onclick: () => replace(detail) }, "Close")),
      item.reason && h("p", { class: "muted" }, item.reason), h("div", { class: "payload" }, renderPayload(decodePayload(payload))),
      admin && h("div", { class: "row" }, actionButton("Decide its label", async () => {
        const value = await choose("Which label does it have?", classes.map((name) => ({ text: name, value: name })));
        if (value !== null) await decide("ResolveItem", { value, reason: "decided on the page" });
      }), ["ITEM_STATE_SET_ASIDE", "ITEM_STATE_DISPUTED"].includes(item.state) && actionButton("Return it to the pool", () => decide("ReturnItem", { reason: "returned on the page" }))),
      h("div", { class: "dashboard" }, h("div", { class: "half" }, h("h3", null, "Why it was selected"), why(selection)),
        h("div", { class: "half" }, h("h3", null, "What happened to it"), h("ul", null, (history ?? []).map((event) => h("li", null,
          `${event.kind.replaceAll("_", " ")} ${event.value ?? ""} ${event.annotator ? `by ${event.annotator}` : ""} ${event.reason ?? ""} `, h("span", { class: "muted" }, ago(event.time)))))))));
  }

  drawTabs();
  load();
  call("CampaignService/GetCampaign", { campaign }, options).then((answer) => (classes = answer.campaign.spec?.classes ?? [])).catch(() => {});
  return { element, leave: () => stop.abort() };
}
