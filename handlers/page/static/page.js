"use strict";
// What the page does besides: keys, news, and where the focus goes. All of it works without this file, but for these.
(() => {
  const KEYS_OFF = "lethelog-keys-off";
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  let marked = null; // id of the row that the keys are about
  let source = null;
  let last = 0;
  let fresh = new Set();

  const rows = () => all("[data-row]");
  const current = () => rows().find((row) => row.getAttribute("aria-current") === "true");

  function mark(row) {
    for (const one of rows()) one.removeAttribute("aria-current");
    if (!row) return;
    row.setAttribute("aria-current", "true");
    marked = row.id;
    row.querySelector("a.open").focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const list = rows();
    if (!list.length) return press(document, by > 0 ? "j" : "k");
    const at = list.indexOf(current());
    mark(list[Math.min(list.length - 1, Math.max(0, at + by))]);
  }

  function press(within, key) {
    const found = within && within.querySelector(`[data-key="${key}"]`);
    if (found) found.click();
  }

  function showKeys() {
    const keys = document.querySelector(".keys");
    keys.open = true;
    keys.querySelector("summary").focus({ preventScroll: true });
    keys.scrollIntoView({ block: "nearest" });
  }

  // Buttons about the chosen ones are for when there are some; without this file the server says so.
  function choose() {
    const form = document.getElementById("bulk");
    const chosen = all("input[name=id]:checked").length;
    if (form) for (const button of all("button", form)) button.disabled = !chosen;
  }

  const keysOn = () => localStorage.getItem(KEYS_OFF) === null;

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !keysOn()) return;
    // A key that is held decides once; the next proposal has not been looked at yet.
    if (event.repeat && !"jk".includes(event.key)) return;
    const list = rows();
    const where = list.length ? current() : document;
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "a" || event.key === "r") press(where, event.key);
    else if (event.key === "u") press((where && where.querySelector("[data-key=u]") && where) || document, "u");
    else if (event.key === "?") showKeys();
    else return;
    event.preventDefault();
  });

  document.addEventListener("change", (event) => {
    if (event.target.name === "id") choose();
    if (event.target.id !== "keys-on") return;
    if (event.target.checked) localStorage.removeItem(KEYS_OFF);
    else localStorage.setItem(KEYS_OFF, "1");
  });
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest("[data-row]");
    if (row && row !== current()) {
      for (const one of rows()) one.removeAttribute("aria-current");
      row.setAttribute("aria-current", "true");
    }
  });
  document.addEventListener("input", (event) => {
    if (event.target.id === "step") event.target.form.querySelector("output").value = event.target.value;
  });

  function tell() {
    const place = document.getElementById("news");
    if (!place || !fresh.size) {
      if (place) place.replaceChildren();
      return;
    }
    const link = document.createElement("a");
    link.href = location.pathname + location.search;
    link.textContent = "Show them";
    const said = document.createElement("p");
    said.className = "notice";
    said.append(`${fresh.size} ${fresh.size === 1 ? "proposal" : "proposals"} new or changed. `, link);
    place.replaceChildren(said);
  }

  function news(event) {
    last = Number(event.lastEventId) || last;
    const place = document.getElementById("news");
    // What the page was made from holds it already.
    if (!place || last <= Number(place.dataset.head)) return;
    const about = JSON.parse(event.data);
    const here = document.getElementById(`p-${about.stream}`);
    // What was decided here stands here already.
    if (here && here.dataset.status !== "proposed") return;
    fresh.add(about.stream);
    tell();
  }

  function listen() {
    const place = document.getElementById("news");
    if (!place || document.hidden) {
      if (source) source.close();
      source = null;
      return;
    }
    if (source) return;
    source = new EventSource(`${place.dataset.live}?from_position=${Math.max(last, Number(place.dataset.head)) + 1}`);
    for (const name of place.dataset.names.split(" ")) source.addEventListener(name, news);
  }

  function arrived() {
    document.documentElement.classList.add("scripted");
    const box = document.getElementById("keys-on");
    if (box) box.checked = keysOn();
    fresh = new Set();
    choose();
    listen();
  }

  // A browser lets a site have few connections: only what is looked at has one.
  document.addEventListener("visibilitychange", listen);
  document.addEventListener("DOMContentLoaded", arrived);
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target === document.body || event.target === document.body) {
      arrived();
      // Who is somewhere in the new page already is left there.
      if (document.activeElement === document.body) document.getElementById("main").focus({ preventScroll: true });
      return;
    }
    choose();
    for (const one of rows()) {
      // Decided here: told of before the answer came, perhaps.
      if (one.dataset.status !== "proposed" && fresh.delete(one.id.slice(2))) tell();
    }
    const row = document.getElementById(marked);
    if (row && row.dataset.status !== "proposed") {
      const list = rows();
      const next = list.slice(list.indexOf(row) + 1).find((one) => one.dataset.status === "proposed");
      mark(next || row);
    }
  });
})();
