"use strict";
// What pages cannot do alone: local times, secrets that are shown for a while, files as text, a lock.

const root = document.documentElement;
const csrf = root.dataset.csrf;
const SHOWN = 30; // seconds for which a secret is shown

const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

const post = (path, fields) =>
  fetch(path, { method: "POST", body: new URLSearchParams({ ...fields, csrf }), cache: "no-store" });

// --- times in the reader's zone ---

const words = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const steps = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [604800, "day", 86400]];

const CLOCKS = { clock: { hour: "2-digit", minute: "2-digit", timeZoneName: "short" }, day: { month: "short", day: "numeric" } };

const localize = (within) => {
  for (const each of within.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const whole = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
    const ago = (Date.now() - at.getTime()) / 1000;
    const step = steps.find(([end]) => Math.abs(ago) < end);
    const form = CLOCKS[each.dataset.form];
    if (form) each.textContent = at.toLocaleString(undefined, form);
    else each.textContent = step ? words.format(-Math.round(ago / step[2]), step[1]) : whole;
    each.title = `${whole} (${each.dateTime})`;
  }
};

// --- copying ---

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1500);
});

// --- secrets ---

const revealed = document.getElementById("revealed");
const parts = document.getElementById("revealed-parts"); // also after the lock has removed both
let ending = 0;

const forget = () => {
  clearInterval(ending);
  parts.replaceChildren();
  if (revealed.open) revealed.close();
};

const reveal = async (button) => {
  const answer = await post(button.dataset.to, { secret: button.dataset.secret });
  if (answer.status === 401) return locked();
  const found = await answer.json();
  parts.replaceChildren();
  document.getElementById("revealed-title").textContent = button.dataset.name;
  document.getElementById("revealed-ending").hidden = Boolean(found.error) || !found.parts.length;
  if (found.error) parts.append(element("p", `${found.error}. ${found.hint || ""}`, { class: "notice amber" }));
  for (const each of found.parts || []) {
    const copying = element("button", "Copy", { type: "button", class: "copy-secret", "aria-label": `Copy ${each.name}` });
    copying.addEventListener("click", async () => {
      await navigator.clipboard.writeText(each.value);
      copying.textContent = "Copied";
    });
    parts.append(element("h3", `${each.name} (${each.form})`), element("pre", each.value, { tabindex: "0" }), copying);
  }
  if (!found.error && !found.parts.length) parts.append(element("p", "Nothing has been uploaded yet."));
  const left = document.getElementById("revealed-left");
  const end = Date.now() + SHOWN * 1000;
  left.textContent = String(SHOWN);
  clearInterval(ending);
  ending = setInterval(() => {
    const rest = Math.ceil((end - Date.now()) / 1000);
    left.textContent = String(Math.max(rest, 0));
    if (rest <= 0) forget();
  }, 250);
  revealed.showModal();
};

const base64 = async (file) => {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
};

const uploading = document.getElementById("uploading");

const upload = (button) => {
  const form = document.getElementById("upload-form");
  form.reset();
  form.dataset.secret = button.dataset.secret;
  document.getElementById("upload-error").hidden = true;
  document.getElementById("uploading-title").textContent = `Upload ${button.dataset.name}`;
  document.getElementById("upload-label").textContent = button.dataset.type.startsWith("cert-")
    ? "PEM: one certificate, and its key" : "Value, as text";
  uploading.showModal();
};

if (revealed) {
  revealed.addEventListener("close", forget);
  document.addEventListener("visibilitychange", () => document.hidden && forget());
  document.addEventListener("click", (event) => {
    if (event.target.matches("button.reveal")) reveal(event.target);
    if (event.target.matches("button.upload")) upload(event.target);
    if (event.target.matches("dialog button.close")) event.target.closest("dialog").close();
  });
  uploading.addEventListener("close", () => document.getElementById("upload-form").reset());
  document.getElementById("upload-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = event.target;
    const file = form.elements.chosen.files[0];
    const value = file ? { file: await base64(file) } : { text: form.elements.text.value };
    const answer = await post(form.action, { secret: form.dataset.secret, ...value });
    if (answer.status === 401) return locked();
    const found = answer.headers.get("content-type").startsWith("application/json")
      ? await answer.json() : { error: "the console refused the upload", hint: "Load the page again." };
    if (!found.error) {
      form.reset();
      location.assign(found.next);
      return;
    }
    const error = document.getElementById("upload-error");
    error.textContent = `${found.error}. ${found.hint || ""}`;
    error.hidden = false;
  });
}

// --- recovery secrets that nobody has downloaded ---

const unsaved = document.querySelector("form[data-unsaved]");
if (unsaved) {
  let saved = false;
  // The download itself also leaves the page, as far as a browser can see.
  unsaved.addEventListener("submit", () => { saved = true; });
  addEventListener("beforeunload", (event) => { if (!saved) event.preventDefault(); });
}

// --- files as text ---

const choose = (input, value) => {
  const side = input.name.split("_")[0];
  const choice = document.querySelector(`input[type=radio][name="${side}"][value=${value}]`);
  if (choice) choice.checked = true;
};
const LARGEST = 16 << 20; // bytes of a manifest
const fill = async (area, file) => {
  const error = document.getElementById("file-error");
  const refuse = (why) => { if (error) { error.textContent = `${file.name} ${why}. The text is unchanged.`; error.hidden = false; } };
  if (file.size > LARGEST) return refuse("has more than 16 MiB");
  try {
    area.value = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
  } catch {
    return refuse("is not UTF-8 text");
  }
  if (error) error.hidden = true;
  area.dispatchEvent(new Event("input"));
};

for (const select of document.querySelectorAll("select[name$=_version]")) {
  select.addEventListener("change", () => choose(select, "earlier"));
}
for (const input of document.querySelectorAll("input.to-text")) {
  input.addEventListener("change", () => {
    const area = input.form.elements[input.dataset.for];
    if (input.files[0]) fill(area, input.files[0]);
    input.value = "";
  });
}
for (const area of document.querySelectorAll("textarea[data-drop]")) {
  area.addEventListener("input", () => choose(area, "text"));
}

// A file is dropped on its text, or anywhere if the page has a single text. Without this, the
// browser would leave the page and show the file.
const areas = document.querySelectorAll("textarea[data-drop]");
if (areas.length) {
  const over = (on) => document.querySelector(".editor")?.classList.toggle("is-over", on);
  document.addEventListener("dragover", (event) => { event.preventDefault(); over(true); });
  document.addEventListener("dragleave", () => over(false));
  document.addEventListener("drop", (event) => {
    const file = event.dataTransfer.files[0];
    const area = event.target.closest("fieldset")?.querySelector("textarea") || (areas.length === 1 ? areas[0] : null);
    over(false);
    if (file || event.target !== area) event.preventDefault();
    if (file && area) fill(area, file);
  });
}

// --- the picture: narrow windows show its list, too ---

const list = document.querySelector("details.as-text");
if (list) list.open = matchMedia("(max-width: 640px)").matches;

// --- the editor ---

const written = document.querySelector("textarea[data-kept]");
let unkept = false;
let keeping = 0;

const keep = (send) => {
  clearTimeout(keeping);
  if (!unkept) return Promise.resolve();
  unkept = false;
  return send(written.dataset.kept, new URLSearchParams({ manifest: written.value, csrf }));
};
const keepNow = () => keep((path, body) => fetch(path, { method: "POST", body, cache: "no-store" }).catch(() => { unkept = true; }));

if (written) {
  const gutter = element("pre", "", { class: "gutter", "aria-hidden": "true" });
  written.before(gutter);
  const marks = new Set([...document.querySelectorAll(".to-line")].map((each) => Number(each.dataset.line)));
  let shown = 0;
  const number = () => {
    const count = written.value.split("\n").length;
    if (count === shown) return;
    shown = count;
    const parts = [""];
    for (let line = 1; line <= count; line += 1) {
      if (marks.has(line)) parts.push(element("b", String(line)), "\n");
      else parts[parts.length - 1] += `${line}\n`;
    }
    gutter.replaceChildren(...parts);
  };
  const scroll = () => { gutter.scrollTop = written.scrollTop; };
  written.addEventListener("scroll", scroll);
  written.addEventListener("input", () => {
    number();
    unkept = true;
    clearTimeout(keeping);
    keeping = setTimeout(keepNow, 800);
    const plan = document.querySelector(".plan");
    if (!plan) return;
    plan.classList.add("is-stale");
    plan.querySelector("button.propose").disabled = true;
    document.querySelector(".stale").hidden = false;
  });
  // The form itself sends the text.
  written.form.addEventListener("submit", () => { unkept = false; clearTimeout(keeping); });
  addEventListener("pagehide", () => keep((path, body) => navigator.sendBeacon(path, body)));
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".to-line");
    if (!link) return;
    event.preventDefault();
    const line = Number(link.dataset.line);
    const lines = written.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    written.focus({ preventScroll: true });
    written.setSelectionRange(start, start + (lines[line - 1] || "").length);
    written.scrollTop = (line - 4) * parseFloat(getComputedStyle(written).lineHeight);
    written.scrollIntoView({ block: "nearest" });
  });
  number();
  scroll();
}

// --- live pages ---

// The stream sends the number of a version. The page then requests its new content.
const SILENT = 25_000; // milliseconds without a sign of life: the console sends one each 10 s
const RETRY = 2_000; // milliseconds
let stream = null;
let alive = 0;
let version = root.dataset.version;
let reading = Promise.resolve();

const toast = (name, shown = true) => { document.getElementById(name).hidden = !shown; };
const isLocked = () => document.getElementById("locked").open;

const fresh = async (path) => {
  const answer = await fetch(path, { headers: { "keyhouse-refresh": "1" }, cache: "no-store" });
  if (answer.status === 401) return locked();
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  localize(found);
  return { found, ok: answer.ok };
};

// What the user works on stays as it is: an open confirmation, or a text.
const isBusy = (live) => live.querySelector("details.confirm[open], input:focus, select:focus") || [...live.querySelectorAll("textarea")].some((each) => each.value);

const refresh = async () => {
  const live = document.getElementById("live"); // the live part of the page, if it has one
  const path = live ? location.href : `${root.dataset.at}/news?section=${root.dataset.section}`;
  const page = await fresh(path);
  if (!page || isLocked()) return;
  for (const each of [".top", ".side nav"]) {
    const [old, now] = [document.querySelector(each), page.found.querySelector(each)];
    if (old && now && old.outerHTML !== now.outerHTML) old.replaceWith(now);
  }
  const now = page.found.getElementById("live");
  const isSame = now && ("keep" in live.dataset ? "keep" in now.dataset : now.isEqualNode(live));
  if (!live || !page.ok || isSame) return;
  if (isBusy(live)) toast("changed");
  else if (now && "keep" in now.dataset === "keep" in live.dataset) live.replaceWith(now);
  else location.reload();
};

const refreshed = () => { reading = reading.then(refresh).catch(() => {}); };

const hear = () => { alive = Date.now(); };

const lost = () => {
  closeStream();
  if (isLocked() || document.hidden) return;
  // A request of its own: a stream does not state why it failed.
  fetch("/here", { headers: { "keyhouse-refresh": "1" }, cache: "no-store" }).then(
    (answer) => (answer.status === 401 ? locked() : setTimeout(openStream, RETRY)),
    () => { toast("ended"); setTimeout(openStream, RETRY); },
  );
};

const openStream = () => {
  if (stream || document.hidden || isLocked() || !root.dataset.at) return;
  hear();
  stream = new EventSource(`${root.dataset.at}/stream?section=${root.dataset.section}&since=${version}`);
  stream.addEventListener("open", () => { hear(); toast("ended", false); toast("displaced", false); });
  stream.addEventListener("beat", hear);
  stream.addEventListener("message", (event) => { hear(); version = event.data; refreshed(); });
  stream.addEventListener("error", lost);
  stream.addEventListener("over", (event) => {
    closeStream();
    if (event.data in REASONS) locked(REASONS[event.data]);
    if (event.data === "ended") { toast("ended"); setTimeout(openStream, RETRY); }
    if (event.data === "displaced") toast("displaced");
  });
};

const closeStream = () => {
  if (stream) stream.close();
  stream = null;
};

document.addEventListener("visibilitychange", () => (document.hidden ? closeStream() : openStream()));
addEventListener("pagehide", closeStream);
setInterval(() => { if (stream && Date.now() - alive > SILENT) lost(); }, 5_000);
document.addEventListener("click", (event) => event.target.matches("button.reload") && location.reload());

// --- the lock ---

// All tabs of this console hear of a lock in one of them.
const tabs = new BroadcastChannel("keyhouse-console");
const IDLE = "Nobody used this console for a while.";
const BY_HAND = "You locked this console.";
const REASONS = { idle: IDLE, locked: BY_HAND, replaced: "A newer link was opened, so this page is locked." };

const locked = (why = IDLE) => {
  if (document.getElementById("locked").open) return;
  if (revealed) {
    forget();
    document.getElementById("upload-form").reset();
    uploading.close();
  }
  closeStream();
  document.querySelector(".page").replaceChildren();
  document.querySelector(".side").replaceChildren();
  document.getElementById("locked-why").textContent = why;
  document.getElementById("locked").showModal();
};

document.getElementById("lock").addEventListener("click", async () => {
  await keepNow();
  await post("/lock", {});
  tabs.postMessage("locked");
  locked(BY_HAND);
});
tabs.addEventListener("message", (event) => event.data === "locked" && locked(BY_HAND));

let used = Date.now();
for (const kind of ["pointerdown", "keydown"]) {
  document.addEventListener(kind, () => {
    // The server counts requests: somebody who only reads tells it now and then.
    if (Date.now() - used > 60_000) fetch("/here", { cache: "no-store" });
    used = Date.now();
  });
}
setInterval(() => {
  if (Date.now() - used > Number(root.dataset.idle) * 1000) locked();
}, 1000);

// --- the theme ---

document.getElementById("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme || (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  localStorage.setItem("keyhouse-theme", next);
});

localize(document);
setInterval(() => localize(document), 15_000);
openStream();
