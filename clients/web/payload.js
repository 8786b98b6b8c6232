// Shows a payload as what it is: text, JSON, Markdown, an image, a sound or a video, or several of them.
//
// Payloads are hostile: everything becomes text nodes and attributes with fixed names, never markup. An SVG is shown as
// an image, in which scripts do not run. Characters that change the direction of text are shown by their number.
//
// What a text is, is recognised by how it begins and by the ending of a file's name. JSON can say it instead:
// {"type": "image", "source": "https://example.org/view?id=5"} is an image, {"type": "text", "text": "# 5"} no heading.

import { h, replace } from "./dom.js";

const MOST_TEXT = 100000; // characters that are shown at first
const BRIEF_TEXT = 80; // characters of what fits one line
const MOST_DEPTH = 6;
const MOST_ENTRIES = 500;
const MEDIA = [
  ["img", /\.(png|jpe?g|gif|webp|avif|svg)$/i],
  ["audio", /\.(mp3|wav|ogg|oga|m4a)$/i],
  ["video", /\.(mp4|webm)$/i],
];
// The first bytes of files.
const SIGNATURES = [
  ["image/png", /^\x89PNG/], ["image/jpeg", /^\xff\xd8\xff/], ["image/gif", /^GIF8/], ["image/webp", /^RIFF....WEBP/s],
  ["image/avif", /^....ftypavif/s], ["audio/wav", /^RIFF....WAVE/s], ["audio/mpeg", /^(ID3|\xff[\xfb\xf3\xf2])/],
  ["audio/ogg", /^OggS/], ["video/webm", /^\x1aE\xdf\xa3/], ["video/mp4", /^....ftyp/s],
];

export function decodePayload(base64) {
  return Uint8Array.from(atob(base64 ?? ""), (letter) => letter.charCodeAt(0));
}

export function renderPayload(bytes) {
  if (bytes.length === 0) return h("p", { class: "muted" }, "This example has no payload; its id is all there is to see.");
  const head = String.fromCharCode(...bytes.subarray(0, 16));
  const type = SIGNATURES.find(([, signature]) => signature.test(head))?.[0];
  if (type) return media(type.startsWith("image/") ? "img" : type.split("/")[0], blobUrl(bytes, type), "");
  try {
    return renderText(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    // Text of an older encoding has no control characters.
    if (!/[\x00-\x08\x0e-\x1f]/.test(new TextDecoder("latin1").decode(bytes))) {
      return h("div", null, plainText(new TextDecoder("windows-1252").decode(bytes)),
        h("p", { class: "muted small-text" }, "This text is not UTF-8. It is shown as Windows-1252; letters with accents may be others."));
    }
    return h("p", null, `${bytes.length} bytes of an unknown kind. `,
      h("a", { href: blobUrl(bytes, "application/octet-stream"), download: "payload" }, "Download"));
  }
}

// Frees the memory of what renderPayload has shown in an element; for when it is not shown any more.
export function releasePayload(element) {
  for (const one of element.querySelectorAll("[src^='blob:'], [href^='blob:']")) URL.revokeObjectURL(one.src ?? one.href);
}

function blobUrl(bytes, type) {
  return URL.createObjectURL(new Blob([bytes], { type }));
}

function renderText(text) {
  const trimmed = text.trim();
  const single = asMedia(trimmed);
  if (single) return single;
  if (/^[[{]/.test(trimmed) && trimmed.length <= MOST_TEXT) {
    try {
      return withPlainText(renderJson(JSON.parse(trimmed), 0), text);
    } catch {
      // Text that begins with a bracket.
    }
  }
  return looksLikeMarkdown(trimmed) && text.length <= MOST_TEXT ? withPlainText(renderMarkdown(text), text) : plainText(text);
}

// A media file: a data URI, an https URL, or a path inside the folder of pools.
function asMedia(text) {
  if (/\s/.test(text) || text === "") return null;
  const data = /^data:(image|audio|video)\/[a-z0-9.+-]+[;,]/i.exec(text);
  if (data) return media(data[1].toLowerCase() === "image" ? "img" : data[1].toLowerCase(), text, "");
  if (text.length > 2000) return null;
  if (/^https?:\/\//i.test(text)) {
    const path = URL.canParse?.(text) === false ? "" : new URL(text).pathname;
    const kind = MEDIA.find(([, ending]) => ending.test(path))?.[0];
    return kind && text.startsWith("https:") ? media(kind, text, text) : link(text, text);
  }
  const kind = MEDIA.find(([, ending]) => ending.test(text))?.[0];
  return kind && isPath(text) ? media(kind, addressOf(text), text) : null;
}

const isPath = (text) => !/^[a-z]+:|^\/|\\/i.test(text);
const addressOf = (path) => `/files/${path.split("/").map(encodeURIComponent).join("/")}`;

// JSON that names its type; null if it does not. Other fields are shown below.
function asTyped(value, depth) {
  const { type, source, text, ...others } = value;
  const kind = { __proto__: null, image: "img", audio: "audio", video: "video" }[type];
  let shown = null;
  if (kind && typeof source === "string") {
    const path = source.trim();
    shown = /^https:\/\//i.test(path) || new RegExp(`^data:${type}/`, "i").test(path) ? media(kind, path, path.startsWith("data:") ? "" : path)
      : isPath(path) ? media(kind, addressOf(path), path) : null;
  } else if (type === "markdown" && typeof text === "string") {
    shown = renderMarkdown(text.slice(0, MOST_TEXT));
  } else if (type === "text" && typeof text === "string") {
    shown = plainText(text);
  }
  return shown && h("div", null, shown, Object.keys(others).length > 0 && renderJson(others, depth));
}

function media(kind, url, name) {
  if (kind !== "img") {
    return h(kind, { src: url, controls: true, preload: "metadata", class: "media",
      onerror: (event) => replaceBroken(event.target, name) });
  }
  const image = h("img", { src: url, alt: name || "The example to label", class: "media", decoding: "async", referrerPolicy: "no-referrer",
    onload: () => image.classList.toggle("tiny", image.naturalWidth <= 96 && image.naturalHeight <= 96),
    onerror: () => replaceBroken(image, name) });
  return image;
}

function replaceBroken(element, name) {
  if (element.src.startsWith("blob:")) URL.revokeObjectURL(element.src);
  element.replaceWith(broken(name));
}

function broken(name) {
  return h("p", { class: "problem" }, "This file cannot be shown. ", h("bdi", null, visible(name)));
}

function link(url, text) {
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, h("bdi", null, visible(text)));
}

// Control characters and marks of direction as their numbers.
function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (letter) => `⟨U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

function plainText(text) {
  const brief = text.length <= BRIEF_TEXT && !text.includes("\n");
  const shown = h("div", { class: brief ? "plain brief" : "plain", dir: "auto" }, visible(text.slice(0, MOST_TEXT)));
  if (text.length <= MOST_TEXT) return shown;
  const more = h("button", { type: "button", onclick: () => {
    shown.textContent = visible(text);
    more.remove();
  } }, `Show all ${text.length.toLocaleString("en-US")} characters`);
  return h("div", null, shown, more);
}

function withPlainText(rendered, text) {
  const place = h("div", null, rendered);
  let plain = false;
  const toggle = h("button", { type: "button", class: "quiet small", onclick: () => {
    plain = !plain;
    replace(place, plain ? plainText(text) : rendered);
    toggle.textContent = plain ? "Show formatted" : "Show as text";
  } }, "Show as text");
  return h("div", null, place, toggle);
}

function renderJson(value, depth) {
  if (typeof value === "string") return asMedia(value.trim()) ?? h("bdi", { class: "plain" }, visible(value.slice(0, MOST_TEXT)));
  if (value === null || typeof value !== "object") return h("span", { class: "value" }, String(value));
  const typed = Array.isArray(value) ? null : asTyped(value, depth);
  if (typed) return typed;
  if (depth >= MOST_DEPTH) return h("span", { class: "plain" }, visible(JSON.stringify(value).slice(0, 1000)));
  const entries = Object.entries(value);
  const rows = entries.slice(0, MOST_ENTRIES).map(([name, entry]) => h("tr", null,
    Array.isArray(value) ? null : h("th", { scope: "row" }, h("bdi", null, visible(name))), h("td", null, renderJson(entry, depth + 1))));
  if (entries.length > MOST_ENTRIES) rows.push(h("tr", null, h("td", null, `and ${entries.length - MOST_ENTRIES} more`)));
  return h("table", { class: "json" }, h("tbody", null, rows));
}

function looksLikeMarkdown(text) {
  return /^#{1,6} \S|^```|^\s*([-*]|\d+\.) \S.*\n\s*([-*]|\d+\.) \S|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\(https?:/m.test(text);
}

// Headings, lists, quotes, code, emphasis and links: what guidelines and examples have.
export function renderMarkdown(text) {
  const blocks = [];
  let list = null;
  const lines = text.replaceAll("\r", "").split("\n");
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const item = /^\s*([-*]|\d+\.) (.*)$/.exec(line);
    if (!item) list = null;
    if (line.startsWith("```")) {
      const end = lines.findIndex((other, j) => j > i && other.startsWith("```"));
      blocks.push(h("pre", null, visible(lines.slice(i + 1, end < 0 ? undefined : end).join("\n"))));
      i = end < 0 ? lines.length : end;
    } else if (item) {
      const tag = /\d/.test(item[1]) ? "ol" : "ul";
      if (list?.localName !== tag) blocks.push(list = h(tag));
      list.append(h("li", null, inline(item[2])));
    } else if (/^#{1,6} /.test(line)) {
      const level = line.indexOf(" ");
      blocks.push(h(`h${Math.min(6, level + 2)}`, null, inline(line.slice(level + 1))));
    } else if (line.startsWith("> ")) {
      blocks.push(h("blockquote", null, inline(line.slice(2))));
    } else if (line.trim() !== "") {
      const end = lines.findIndex((other, j) => j > i && !/^[^\s#>`*\-\d]/.test(other));
      blocks.push(h("p", null, inline(lines.slice(i, end < 0 ? undefined : Math.max(end, i + 1)).join(" "))));
      i = end < 0 ? lines.length : Math.max(end, i + 1) - 1;
    }
  }
  return h("div", { class: "markdown", dir: "auto" }, blocks);
}

function inline(text) {
  const parts = text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*|\[[^\]]+\]\(https?:\/\/[^)\s]+\))/);
  return parts.map((part) => {
    if (/^`.+`$/.test(part)) return h("code", null, visible(part.slice(1, -1)));
    if (/^\*\*.+\*\*$/.test(part)) return h("strong", null, visible(part.slice(2, -2)));
    if (/^\*.+\*$/.test(part)) return h("em", null, visible(part.slice(1, -1)));
    const address = /^\[(.+)\]\((https?:\/\/.+)\)$/.exec(part);
    return address ? link(address[2], address[1]) : visible(part);
  });
}
