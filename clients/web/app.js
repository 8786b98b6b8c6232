// The page: who is signed in, which screen the address names, and the list of campaigns.

import { accessScreen } from "./access.js";
import { annotatorsScreen } from "./annotators.js";
import { ApiError, call, signIn, signOut } from "./api.js";
import { campaignScreen } from "./campaign.js";
import { createScreen } from "./create.js";
import { choose, download, h, number, replace, stateBadge, stateName, toast } from "./dom.js";
import { itemsScreen } from "./items.js";
import { labelScreen } from "./label.js";
import { outbox } from "./outbox.js";

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

function drawHeader() {
  const link = (href, text) => h("a", { href, "aria-current": location.hash.startsWith(href) && href !== "#/" ? "page" : null }, text);
  replace(header, h("a", { href: "#/", class: "brand" }, "Fulcrum"),
    caller && h("nav", { "aria-label": "Main" }, link("#/", "Campaigns"), may.administer() && link("#/create", "New campaign"),
      may.administer() && caller.tokens && link("#/access", "Access")),
    caller && h("span", { class: "who" }, caller.tokens
      ? [h("span", { class: "muted" }, h("bdi", null, caller.caller)), h("button", { type: "button", class: "quiet small", onclick: async () => {
        outbox.halt();
        await signOut();
        caller = null;
        route();
      } }, "Sign out")]
      : whoLabels()));
}

// Without tokens, people who share a browser say who they are.
function whoLabels() {
  const known = localStorage.getItem(NAME_KEY);
  if (!known) return h("span", { class: "muted no-tokens" }, "no tokens");
  return [h("span", { class: "muted" }, h("bdi", null, known)), h("button", { type: "button", class: "quiet small", onclick: () => {
    localStorage.removeItem(NAME_KEY);
    route();
  } }, "Change name")];
}

// The title and the focus tell screen readers that there is another screen.
function show(title, screen) {
  const first = !page.hasChildNodes();
  leave();
  leave = screen.leave ?? (() => {});
  replace(page, screen.element);
  document.title = `${title} · Fulcrum`;
  scrollTo(0, 0);
  const main = document.getElementById("main");
  main.tabIndex = -1;
  if (!first) (screen.focus ?? main).focus({ preventScroll: true });
}

function signInScreen(problem) {
  const token = h("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: false });
  const complaint = h("p", { class: "problem", role: "alert" }, problem ?? "");
  const form = h("form", { class: "card narrow", onsubmit: async (event) => {
    event.preventDefault();
    try {
      caller = await signIn(token.value.trim());
      await route();
    } catch (error) {
      complaint.textContent = error.code === "unauthenticated" ? "This token is unknown or was revoked." : error.message;
    }
  } }, h("h1", null, "Sign in"), h("p", null, "An administrator gave you a token. It begins with ", h("code", null, "fulcrum_"), "."),
  h("label", { htmlFor: "token" }, "Token"), token, h("button", { class: "primary" }, "Sign in"), complaint);
  return { element: h("main", { id: "main" }, form), focus: token };
}

function campaignCard(campaign) {
  const { name, question, state, round, roundItems, roundSettled, labels, budget } = campaign;
  return h("li", { class: "card campaign-card" },
    h("div", { class: "row" }, h("h2", null, name), stateBadge(state)),
    question && h("p", { dir: "auto" }, question.split("\n")[0]),
    h("p", { class: "muted" }, `${number(labels)}${budget ? ` of ${number(budget)}` : ""} labels`,
      Number(round) > 0 && `, round ${round}: ${number(roundSettled)} of ${number(roundItems)} settled`),
    outbox.unsent(name) > 0 && h("p", null, h("span", { class: "badge warn" }, `${number(outbox.unsent(name))} of your answers not sent yet`)),
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

// Answers that the server did not take: they are nowhere else.
function refusedNotice(redraw) {
  const own = caller.tokens ? caller.caller : undefined;
  const entries = outbox.refused(own);
  if (entries.length === 0) return null;
  const count = `${number(entries.length)} answer${entries.length === 1 ? " was" : "s were"} refused by the server`;
  const remove = async () => {
    if (!(await choose("Remove the refused answers from this browser?", [{ text: "Remove them", value: true, class: "danger" }]))) return;
    outbox.dropRefused(own);
    redraw();
  };
  return h("section", { class: "card refused", role: "status" }, h("h2", null, count),
    h("p", null, "They are kept in this browser. One of them: ", h("bdi", null, entries.at(-1).itemId ?? ""), ": ", h("bdi", null, entries.at(-1).message)),
    h("div", { class: "row" }, h("button", { type: "button", onclick: () =>
      download(new Blob([JSON.stringify(entries, null, 2)], { type: "application/json" }), "refused-answers.json") }, "Download"),
    h("button", { type: "button", class: "danger", onclick: remove }, "Remove")));
}

function homeScreen() {
  const list = h("ul", { class: "cards" });
  const notice = h("div");
  const drawNotice = () => caller && replace(notice, refusedNotice(drawNotice));
  drawNotice();
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const campaigns = await listCampaigns();
      replace(list, campaigns.length ? campaigns.map(campaignCard) : h("li", { class: "card" }, h("p", null, may.administer()
        ? ["There is no campaign yet. ", h("a", { href: "#/create" }, "Create one"), "."] : "There is no campaign to label now.")));
    } catch (error) {
      if (error.code !== "unauthenticated") toast(error.message, "error");
    }
  };
  refresh();
  const timer = setInterval(refresh, REFRESH_TIME);
  const stop = new AbortController();
  outbox.addEventListener("sent", refresh, { signal: stop.signal });
  outbox.addEventListener("refused", drawNotice, { signal: stop.signal });
  document.addEventListener("visibilitychange", refresh, { signal: stop.signal });
  return { element: h("main", { id: "main" }, h("h1", null, "Campaigns"), notice, list), leave: () => {
    clearInterval(timer);
    stop.abort();
  } };
}

// Without tokens annotators name themselves.
function withAnnotator(campaign) {
  if (caller.tokens) return labelScreen(campaign, caller.caller);
  const known = localStorage.getItem(NAME_KEY);
  if (known) return labelScreen(campaign, known);
  const name = h("input", { id: "annotator", required: true, maxLength: 64, autocomplete: "nickname" });
  return { focus: name, element: h("main", { id: "main" }, h("form", { class: "card narrow", onsubmit: (event) => {
    event.preventDefault();
    localStorage.setItem(NAME_KEY, name.value.trim());
    route();
  } }, h("h1", null, "Who labels?"), h("p", null, "Your labels are stored under this name."), h("label", { htmlFor: "annotator" }, "Name"), name,
  h("button", { class: "primary" }, "Start"))) };
}

function signedOut() {
  caller = null;
  drawHeader();
  show("Sign in", signInScreen());
}

async function route() {
  if (!caller) {
    try {
      caller = await call("AccessService/GetCaller");
    } catch (error) {
      if (error instanceof ApiError && error.code === "unauthenticated") return signedOut();
      drawHeader();
      show("No connection", { element: h("main", { id: "main" }, h("section", { class: "notice" }, h("h1", null, "No connection to the server"), h("p", null, error.message))) });
      return void setTimeout(route, 2000);
    }
  }
  // Without tokens annotators name themselves, so all that was left here may be sent.
  if (may.label()) outbox.flush(caller.tokens ? caller.caller : undefined);
  drawHeader();
  const [name, campaign, part] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  if (name === "label" && campaign) return show(`Label ${campaign}`, withAnnotator(campaign));
  if (name === "campaign" && part === "items") return show(`Examples of ${campaign}`, itemsScreen(campaign, may.administer()));
  if (name === "campaign" && part === "annotators") return show(`Annotators of ${campaign}`, annotatorsScreen(campaign, may));
  if (name === "campaign" && campaign) return show(campaign, campaignScreen(campaign, may));
  if (name === "create" && may.administer()) return show("New campaign", createScreen());
  if (name === "access" && may.administer()) return show("Access", accessScreen());
  show("Campaigns", homeScreen());
}

// Not by the address, which names the screen.
document.querySelector(".skip-link").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
// Whatever screen is open: an answer was refused, a session has ended, or a token was revoked.
outbox.addEventListener("refused", ({ detail: { campaign, itemId, message } }) =>
  toast(`Your answer about ${itemId || `an example of ${campaign}`} was refused: ${message}`, "error"));
addEventListener("signedout", () => caller && signedOut());
addEventListener("hashchange", route);
route();
