// Keeps the page up to date. When /number has another answer it fetches the page again, and replaces
// each part marked data-live that differs. What the reader has opened, scrolled, filtered or focused
// is kept. Without this script the page is complete, and reloads by itself.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const parts = (page) => [...page.querySelectorAll("[data-live]")];
  const served = new Map(parts(document).map((part) => [part.id, part.outerHTML]));
  const ASK_MS = 500;
  let number = null, asking = false, again = false;

  // ---- times, as how long ago

  function ago(ms) {
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 5) return "just now";
    if (s < 60) return `${s} s ago`;
    if (s < 3600) return `${Math.floor(s / 60)} min ago`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min ago`;
    return `${Math.floor(s / 86400)} d ago`;
  }
  function tellTimes() {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const text = ago(Date.now() - Date.parse(time.dateTime));
      time.textContent = time.dataset.ago ? text : `${time.title.replace(" UTC", "")} (${text})`;
    }
  }

  // ---- the state of the connection

  function tellLink(state, text) {
    const link = byId("link");
    if (link.dataset.state === state && byId("link-text").textContent === text) return;
    link.dataset.state = state;
    byId("link-text").textContent = text;
  }

  // ---- new contents

  function states(page) {
    const found = new Map();
    for (const one of page.querySelectorAll("[data-name][data-state]"))
      found.set(one.dataset.object, [one.dataset.name, one.dataset.state]);
    return found;
  }
  function tellNews(before, after) {
    const news = [];
    for (const [id, [name, state]] of after) {
      const old = before.get(id);
      if (!old) news.push(`${name} is new`);
      else if (old[1] !== state && (state !== "behind" || old[1] === "failed"))
        if (old[1] !== "behind" || state === "failed") news.push(`${name}: ${state}`);
    }
    if (news.length) byId("news").textContent = news.slice(0, 5).join(". ");
  }
  function replacePart(old, fresh) {
    const opened = [...old.querySelectorAll("details[open]")].map((one) => one.id);
    const scrolls = [old, ...old.querySelectorAll("[data-scroll], .wide")].map((one) => [one.scrollLeft, one.scrollTop]);
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(fresh);
    for (const one of fresh.querySelectorAll("details")) if (opened.includes(one.id)) one.open = true;
    [fresh, ...fresh.querySelectorAll("[data-scroll], .wide")].forEach((one, n) => {
      if (scrolls[n]) [one.scrollLeft, one.scrollTop] = scrolls[n];
    });
    if (focused && byId(focused)) byId(focused).focus({ preventScroll: true });
  }
  async function renew() {
    if (asking) { again = true; return; }
    asking = true;
    try {
      const answer = await fetch(location.pathname, { cache: "no-store" });
      if (answer.status === 401) { location.reload(); return; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = new Map(parts(page).map((part) => [part.id, part]));
      if ([...fresh.keys()].join() !== [...served.keys()].join()) { replaceAll(page, fresh); return; }
      const before = states(document);
      for (const [id, part] of fresh) {
        if (served.get(id) === part.outerHTML) continue;
        served.set(id, part.outerHTML);
        replacePart(byId(id), document.importNode(part, true));
      }
      document.title = page.title;
      tellNews(before, states(document));
      tellTimes(); arrange();
    } catch (problem) {
      if (!(problem instanceof TypeError)) throw problem; // of fetch: the server is gone, as /number shows
    } finally {
      asking = false;
      if (again) { again = false; renew(); }
    }
  }
  function replaceAll(page, fresh) { // other parts than before: a first refresh, or the object is gone
    const before = states(document);
    byId("main").replaceWith(document.importNode(page.getElementById("main"), true));
    served.clear();
    for (const [id, part] of fresh) served.set(id, part.outerHTML);
    document.title = page.title;
    tellNews(before, states(document));
    tellTimes(); arrange(); listenToTools();
  }

  // ---- filter, and what is next to what in the graph

  function arrange() {
    const filter = byId("filter");
    if (!filter) return;
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (one) => words.every((word) => one.dataset.find.toLowerCase().includes(word));
    const shown = new Set();
    let rows = 0, all = 0;
    for (const one of document.querySelectorAll("[data-find]")) {
      const on = matches(one);
      one.classList.toggle("off", !on);
      if (on) shown.add(one.dataset.object);
      if (one.tagName === "TR") { all += 1; rows += on ? 1 : 0; }
    }
    for (const line of document.querySelectorAll(".line"))
      line.classList.toggle("off", !(shown.has(line.dataset.from) && shown.has(line.dataset.to)));
    byId("filtered").textContent = words.length ? `${rows} of ${all} objects` : "";
    byId("graph").classList.toggle("fits", byId("fit").checked);
  }
  function near(event) {
    const box = event.target.closest ? event.target.closest(".box") : null;
    const id = box && (event.type === "mouseover" || event.type === "focusin") ? box.dataset.object : null;
    for (const line of document.querySelectorAll(".line"))
      line.classList.toggle("near", id !== null && (line.dataset.from === id || line.dataset.to === id));
  }
  function listenToTools() {
    if (byId("filter")) byId("filter").addEventListener("input", arrange);
    if (byId("fit")) byId("fit").addEventListener("change", arrange);
  }
  for (const kind of ["mouseover", "mouseout", "focusin", "focusout"]) document.addEventListener(kind, near);
  document.addEventListener("click", (event) => {
    const link = event.target.closest ? event.target.closest("[data-filter]") : null;
    if (!link || !byId("filter")) return;
    byId("filter").value = byId("filter").value === link.dataset.filter ? "" : link.dataset.filter;
    arrange();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && byId("filter")) {
      event.preventDefault();
      byId("filter").focus();
    } else if (event.key === "Escape" && event.target === byId("filter")) {
      event.target.value = "";
      arrange();
    }
  });

  // ---- changes

  async function poll() {
    try {
      const answer = await fetch("/number", { cache: "no-store" });
      const fresh = answer.ok ? await answer.text() : `status ${answer.status}`;
      tellLink("on", "live");
      if (fresh !== number) { number = fresh; renew(); }
    } catch (problem) {
      if (!(problem instanceof TypeError)) throw problem;
      tellLink("lost", "connection lost; trying again");
    } finally {
      tellTimes();
      setTimeout(poll, ASK_MS);
    }
  }
  poll(); arrange(); listenToTools();
})();
