// Keeps the page up to date, sends forms without leaving it, and has the keys. It makes no HTML from text: pages come
// from the server as whole documents.

const entering = document.getElementById("enter");
if (entering && location.hash.length > 1) {
  entering.elements.link.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  entering.requestSubmit();
}

/** Loads a page as a document, which runs nothing and needs no parser of ours. */
function load(method, address, body) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, address);
    request.responseType = "document";
    request.onload = () => (request.response ? resolve(request.response) : reject(new Error("no page")));
    request.onerror = () => reject(new Error("no answer"));
    if (body) request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    request.send(body);
  });
}

const version = (node) => node.dataset.version ?? "";
const said = document.getElementById("said");
let place = 0; // where j and k go on if no item has the focus
let answered; // the item that was answered here

/** Takes no press for half a second on the items from here on, which have just come to their places: it was meant for
 * what was there. */
function came(node) {
  for (let each = node; each; each = each.nextElementSibling)
    if (each.matches?.("[data-item]")) each.animate({ pointerEvents: ["none", "none"], opacity: [0.5, 0.5] }, 500);
}

/** A copy of an element as the server made it: nothing is opened, and no form is on its way. */
function unopened(node) {
  const copy = document.importNode(node, true);
  for (const each of copy.querySelectorAll?.("[open], [aria-busy]") ?? [])
    ["open", "aria-busy"].forEach((name) => each.removeAttribute(name));
  return copy;
}

/** Makes the children of one element those of another. Those with the same id and version, or without an id and equal,
 * stay: with the focus, and what somebody is typing in them. */
function merge(old, fresh) {
  const kept = new Map();
  for (const child of [...old.children]) if (child.id) kept.set(child.id, child);
  const others = [...old.childNodes].filter((child) => !child.id);
  const wanted = [...fresh.childNodes].map((child) => {
    const made = document.importNode(child, true);
    const at = child.id ? -1 : others.findIndex((each) => unopened(each).isEqualNode(made));
    const same = child.id ? kept.get(child.id) : others.splice(at, at < 0 ? 0 : 1)[0];
    return same && version(same) === version(child) ? same : made;
  });
  const active = document.activeElement;
  const lost = old.contains(active) && old !== active;
  const item = lost ? active.closest("[data-item]") : null;
  if (lost) place = Math.max([...document.querySelectorAll("[data-item]")].indexOf(item), 0);
  for (const child of [...old.childNodes]) if (!wanted.includes(child)) came(child.nextElementSibling), child.remove();
  wanted.forEach((child, at) => {
    if (old.childNodes[at] === child) return;
    old.insertBefore(child, old.childNodes[at] ?? null);
    came(child);
  });
  if (!lost || document.activeElement !== document.body) return;
  document.getElementById("main").focus({ preventScroll: true });
  if (old.id === "waiting" && item && item.id !== answered)
    said.textContent = "The call that you were at does not wait any more. How it was answered is below.";
}

function show(page) {
  if (!page.getElementById("main") || page.body.dataset.again === undefined) {
    document.getElementById("gone").hidden = false; // not let in any more; or another server has the port: go nowhere
    return;
  }
  document.title = page.title;
  tell(Number(page.body.dataset.waiting));
  for (const old of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(old.id);
    if (fresh) merge(old, fresh);
  }
}

/** Shows a notification when more calls wait than before and nobody looks at the page. It has nothing that a model
 * wrote. */
function tell(waiting) {
  const before = Number(document.body.dataset.waiting);
  document.body.dataset.waiting = waiting;
  if (waiting <= before || document.hasFocus() || globalThis.Notification?.permission !== "granted") return;
  const text = waiting === 1 ? "1 call waits for your answer" : `${waiting} calls wait for your answer`;
  const shown = new Notification("Toolcrib", { body: text, tag: "waiting", renotify: true });
  shown.onclick = () => focus();
}

const notify = document.getElementById("notify");
if (notify && globalThis.Notification?.permission === "default") {
  notify.hidden = false;
  notify.onclick = async () => (notify.hidden = (await Notification.requestPermission()) !== "default");
}

let loading = false;
let again = false;
async function refresh() {
  if (loading) return void (again = true);
  loading = true;
  again = false;
  let pause = 250; // at most four times a second
  try {
    show(await load("GET", document.body.dataset.again || location.href));
  } catch {
    again = true;
    pause = 1000;
  }
  setTimeout(() => {
    loading = false;
    if (again) refresh();
  }, pause);
}

if (document.body.dataset.again !== undefined) {
  // A browser opens six connections to a server, and each stream keeps one: so one page of all has the stream, and tells
  // the others.
  const others = new BroadcastChannel(location.pathname.split("/")[1]);
  const gone = document.getElementById("gone");
  const heard = (what) => {
    gone.hidden = what !== "gone";
    if (what === "changed") refresh();
  };
  others.onmessage = (event) => heard(event.data);
  const listen = () =>
    new Promise(() => {
      const events = new EventSource("events");
      const say = (what) => (others.postMessage(what), heard(what));
      events.onopen = () => say("there");
      events.onmessage = () => say("changed");
      events.onerror = () => say("gone");
    });
  if (navigator.locks) navigator.locks.request("events", listen);
  else listen();
  refresh(); // something may have changed since the page was made

  addEventListener("submit", async (event) => {
    if (event.target.method !== "post") return;
    event.preventDefault();
    if (event.target.ariaBusy) return; // a disabled button would lose the focus
    const sent = new URLSearchParams(new FormData(event.target, event.submitter));
    event.target.ariaBusy = "true";
    answered = event.target.closest("[data-item]")?.id;
    try {
      const action = event.target.getAttribute("action");
      const page = await load("POST", action, sent.toString());
      // A page of something else than this address has, or of somebody who is not let in, only says what was done.
      if (page.getElementById("main") && (!location.search || location.pathname.endsWith(`/${action}`))) show(page);
      else refresh();
      const done = page.getElementById("said");
      said.textContent = (done ?? page.querySelector("main p")).textContent;
      if (done && !said.textContent.startsWith("Nothing was done"))
        for (const field of event.target.querySelectorAll("[data-once]")) field.value = "";
    } catch {
      said.textContent = "The console did not answer. Nothing is known of this answer: look at the list again.";
    }
    event.target.ariaBusy = null;
    if (said.textContent) scrollTo(0, 0); // else what it led to is at the form
  });
}

// What is long, or takes time, comes when somebody opens it.
addEventListener("toggle", async (event) => {
  const from = event.target.open && event.target.dataset.from;
  const found = from && (await load("GET", from).catch(() => null))?.querySelector("[data-more]");
  if (found) event.target.replaceChildren(event.target.firstElementChild, document.importNode(found, true));
}, true);

// A key counts only for the item that has the focus. It answers or chooses only after a moment in which the focus did
// not move and no key came: else it may be for another item, or a part of a word.
let moved = 0;
addEventListener("focusin", () => (moved = performance.now()));
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("input, textarea, select, button, summary")) return;
  const quiet = performance.now() - moved > 250;
  moved = performance.now();
  const items = [...document.querySelectorAll("[data-item]")];
  const here = event.target.closest("[data-item]");
  if (event.key === "j" || event.key === "k") {
    const at = items.indexOf(here) + (event.key === "j" ? 1 : -1);
    items[here ? at : Math.min(place, items.length - 1)]?.focus();
  } else if (event.key === "?") {
    const keys = document.getElementById("keys");
    keys.open = !keys.open;
    if (keys.open) keys.scrollIntoView();
  } else if (here) {
    const found = here.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!found) return;
    if (!found.matches("button, [type=checkbox]")) found.focus();
    else if (quiet) found.click();
  } else return;
  event.preventDefault();
});
