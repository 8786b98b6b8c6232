// The page: who is signed in, which screen the address names, and the list of campaigns.

import { accessScreen } from "./access.js";
import { ApiError, call, signIn, signOut } from "./api.js";
import { campaignScreen } from "./campaign.js";
import { createScreen } from "./create.js";
import { h, number, replace, toast } from "./dom.js";
import { itemsScreen } from "./items.js";
import { labelScreen } from "./label.js";

const page = document.getElementById("page");
const header = document.getElementById("header");
const NAME_KEY = "fulcrum/annotator";
const REFRESH_TIME = 5000;

let caller = null; // { caller, role, tokens }
let leave = () => {};

const may = {
  label: () => caller?.role !== "ROLE_READER",
  read: () => caller?.role === "ROLE_ADMIN" || caller?.role === "ROLE_READER",
  administer: () => caller?.role === "ROLE_ADMIN",
};

export function stateName(state) {
  return (state ?? "").replace("CAMPAIGN_STATE_", "").toLowerCase().replaceAll("_", " ") || "unknown";
}

function drawHeader() {
  const link = (href, text) => h("a", { href, "aria-current": location.hash.startsWith(href) && href !== "#/" ? "page" : null }, text);
  replace(header, h("a", { href: "#/", class: "brand" }, "Fulcrum"),
    caller && h("nav", { "aria-label": "Main" }, link("#/", "Campaigns"), may.administer() && link("#/create", "New campaign"),
      may.administer() && caller.tokens && link("#/access", "Access")),
    caller && h("span", { class: "who" }, caller.tokens
      ? [h("span", { class: "muted" }, h("bdi", null, caller.caller)), h("button", { type: "button", class: "quiet small", onclick: async () => {
        await signOut();
        caller = null;
        route();
      } }, "Sign out")]
      : h("span", { class: "muted" }, "no tokens")));
}

function show(screen) {
  leave();
  leave = screen.leave ?? (() => {});
  replace(page, screen.element);
  scrollTo(0, 0);
}

function signInScreen(problem) {
  const token = h("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: false });
  const complaint = h("p", { class: "problem", role: "alert" }, problem ?? "");
  const form = h("form", { class: "card narrow", onsubmit: async (event) => {
    event.preventDefault();
    try {
      caller = await signIn(token.value.trim());
      route();
    } catch (error) {
      complaint.textContent = error.code === "unauthenticated" ? "This token is unknown or was revoked." : error.message;
    }
  } }, h("h1", null, "Sign in"), h("p", null, "An administrator gave you a token. It begins with ", h("code", null, "fulcrum_"), "."),
  h("label", { htmlFor: "token" }, "Token"), token, h("button", { class: "primary" }, "Sign in"), complaint);
  return { element: h("main", { id: "main" }, form) };
}

function campaignCard(campaign) {
  const { name, question, state, round, roundItems, roundSettled, labels, budget } = campaign;
  return h("li", { class: "card campaign-card" },
    h("div", { class: "row" }, h("h2", null, name), h("span", { class: `badge ${stateName(state)}` }, stateName(state))),
    question && h("p", { dir: "auto" }, question.split("\n")[0]),
    h("p", { class: "muted" }, `${number(labels)}${budget ? ` of ${number(budget)}` : ""} labels`,
      Number(round) > 0 && `, round ${round}: ${number(roundSettled)} of ${number(roundItems)} settled`),
    h("div", { class: "row" },
      may.label() && !["done", "broken", "closing"].includes(stateName(state)) && h("a", { class: "button primary", href: `#/label/${encodeURIComponent(name)}` }, "Label"),
      may.read() && h("a", { class: "button", href: `#/campaign/${encodeURIComponent(name)}` }, "Progress")));
}

async function listCampaigns() {
  const all = [];
  const method = may.read() ? "CampaignService/ListCampaigns" : "LabelingService/ListLabelingCampaigns";
  for (let pageToken = "", more = true; more;) {
    const answer = await call(method, { pageSize: 200, pageToken });
    for (const entry of answer.campaigns ?? []) {
      all.push(may.read()
        ? { ...entry, question: entry.spec?.question, budget: Number(entry.spec?.stop?.labels ?? 0) }
        : { ...entry, name: entry.campaign, budget: Number(entry.labelBudget ?? 0) });
    }
    pageToken = answer.nextPageToken ?? "";
    more = pageToken !== "";
  }
  return all;
}

function homeScreen() {
  const list = h("ul", { class: "cards" });
  const refresh = async () => {
    try {
      const campaigns = await listCampaigns();
      replace(list, campaigns.length ? campaigns.map(campaignCard) : h("li", { class: "card" }, h("p", null, may.administer()
        ? ["There is no campaign yet. ", h("a", { href: "#/create" }, "Create one"), "."] : "There is no campaign to label now.")));
    } catch (error) {
      if (error.code === "unauthenticated") return signedOut();
      toast(error.message, "error");
    }
  };
  refresh();
  const timer = setInterval(refresh, REFRESH_TIME);
  return { element: h("main", { id: "main" }, h("h1", null, "Campaigns"), list), leave: () => clearInterval(timer) };
}

// Without tokens annotators name themselves.
function withAnnotator(campaign) {
  if (caller.tokens) return labelScreen(campaign, caller.caller);
  const known = localStorage.getItem(NAME_KEY);
  if (known) return labelScreen(campaign, known);
  const name = h("input", { id: "annotator", required: true, maxLength: 64, autocomplete: "nickname" });
  return { element: h("main", { id: "main" }, h("form", { class: "card narrow", onsubmit: (event) => {
    event.preventDefault();
    localStorage.setItem(NAME_KEY, name.value.trim());
    route();
  } }, h("h1", null, "Who labels?"), h("p", null, "Your labels are stored under this name."), h("label", { htmlFor: "annotator" }, "Name"), name,
  h("button", { class: "primary" }, "Start"))) };
}

function signedOut() {
  caller = null;
  drawHeader();
  show(signInScreen());
}

async function route() {
  if (!caller) {
    try {
      caller = await call("AccessService/GetCaller");
    } catch (error) {
      if (error instanceof ApiError && error.code === "unauthenticated") return signedOut();
      drawHeader();
      show({ element: h("main", { id: "main" }, h("section", { class: "notice" }, h("h1", null, "No connection to the server"), h("p", null, error.message))) });
      return void setTimeout(route, 2000);
    }
  }
  drawHeader();
  const [name, campaign, part] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  if (name === "label" && campaign) return show(withAnnotator(campaign));
  if (name === "campaign" && part === "items") return show(itemsScreen(campaign, may.administer()));
  if (name === "campaign" && campaign) return show(campaignScreen(campaign, may.administer()));
  if (name === "create" && may.administer()) return show(createScreen());
  if (name === "access" && may.administer()) return show(accessScreen());
  show(homeScreen());
}

addEventListener("hashchange", route);
route();
