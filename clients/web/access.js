// Tokens: who may call the server, for administrators.

import { call, newRequestId } from "./api.js";
import { actionButton, ago, choose, h, replace, toast } from "./dom.js";

export function accessScreen() {
  const rows = h("tbody");
  const made = h("div", { role: "status" });
  const owner = h("input", { id: "owner", required: true, maxLength: 64, autocomplete: "off" });
  const role = h("select", { id: "role" }, ["annotator", "reader", "admin"].map((name) => h("option", { value: `ROLE_${name.toUpperCase()}` }, name)));

  async function refresh() {
    const { tokens } = await call("AccessService/ListTokens");
    replace(rows, (tokens ?? []).map((token) => h("tr", null, h("td", null, h("bdi", null, token.owner)), h("td", { class: "word" }, token.role.replace("ROLE_", "").toLowerCase()),
      h("td", { class: "word" }, token.createdAt ? ago(token.createdAt) : ""), h("td", null, actionButton("Revoke", async () => {
        if (!await choose(`Revoke the token of ${token.owner}?`, [{ text: "Revoke it; its tasks are given to others", value: true, class: "danger" }])) return;
        await call("AccessService/RevokeToken", { owner: token.owner, requestId: newRequestId() });
        await refresh();
      }, { class: "danger small" })))));
  }

  const form = h("form", { class: "card", onsubmit: async (event) => {
    event.preventDefault();
    try {
      const answer = await call("AccessService/CreateToken", { owner: owner.value.trim(), role: role.value, requestId: newRequestId() });
      replace(made, h("p", null, "The token of ", h("strong", null, answer.token.owner), ". It is shown only now:"), h("pre", { class: "yaml", tabIndex: 0 }, answer.secret));
      owner.value = "";
      await refresh();
    } catch (error) {
      toast(error.message, "error");
    }
  } }, h("div", { class: "form-grid" }, h("div", null, h("label", { htmlFor: "owner" }, "Name"), owner), h("div", null, h("label", { htmlFor: "role" }, "Role"), role)),
  h("p"), h("button", { class: "primary" }, "Create a token"), made);
  refresh().catch((error) => toast(error.message, "error"));
  return { element: h("main", { id: "main" }, h("h1", null, "Access"), form, h("h2", null, "Tokens"), h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Tokens" }, h("table", { class: "slim" },
    h("thead", null, h("tr", null, ["Name", "Role", "Created", ""].map((title) => h("th", { scope: "col" }, title)))), rows))) };
}
