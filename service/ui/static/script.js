// The script of leasehold's pages: when the server says that something has changed, it
// fetches the page again and puts its part "live" in the place of the old one. Without it
// the pages can be read, and are as old as their last reload.
"use strict";
(() => {
  const live = () => document.getElementById("live");
  if (!live() || !window.EventSource) return;
  const spacing = 250; // ms between two fetches
  const patience = 5000; // ms after which a page is fetched though nothing was said: ages grow
  let stream = null, busy = false, again = false, last = 0, lostAt = null;

  const say = (text) => {
    const at = document.getElementById("said");
    if (at.textContent !== text) at.textContent = text;
  };

  // What has the focus is found again by what it is, for rows move.
  const mark = (root) => {
    const at = document.activeElement;
    if (!at || !root.contains(at)) return null;
    return { id: at.id, tag: at.tagName, href: at.getAttribute("href"), text: at.textContent };
  };
  const restore = (root, m) => {
    if (!m) return;
    const alike = [...root.querySelectorAll("a, button, input, select")].filter((e) => e.tagName === m.tag && e.getAttribute("href") === m.href);
    // A link may say another number now, such as "7 more".
    const found = m.id ? document.getElementById(m.id) : alike.find((e) => e.textContent === m.text) || m.href && alike[0];
    if (found) found.focus({ preventScroll: true });
  };

  const selecting = (root) => {
    const s = getSelection();
    return s && !s.isCollapsed && s.anchorNode && root.contains(s.anchorNode);
  };
  // What somebody typed into a form of the page stays.
  const typed = (root) => [...root.querySelectorAll("input, select")].map((e) => [e.id, e.value, e === document.activeElement ? [e.selectionStart, e.selectionEnd] : null]);

  const swap = (html) => {
    const next = new DOMParser().parseFromString(html, "text/html").getElementById("live");
    const old = live();
    if (!next) { // the page that stands here now is not one that follows changes, such as a form
      location.reload();
      return;
    }
    if (next.dataset.version === old.dataset.version && selecting(old)) return;
    document.title = next.dataset.title;
    if (next.innerHTML === old.innerHTML) {
      old.dataset.version = next.dataset.version;
      return;
    }
    const m = mark(old), fields = typed(old);
    const scrolled = [...old.querySelectorAll(".scroll")].map((e) => [e.id, e.scrollLeft]);
    old.replaceWith(document.adoptNode(next));
    for (const [id, value] of fields) {
      const e = id && document.getElementById(id);
      if (e) e.value = value;
    }
    for (const [id, x] of scrolled) {
      const e = document.getElementById(id);
      if (e) e.scrollLeft = x;
    }
    restore(live(), m);
    for (const [id, , caret] of fields) {
      const e = id && document.getElementById(id);
      if (e && caret && caret[0] !== null && e.setSelectionRange) e.setSelectionRange(caret[0], caret[1]);
    }
    const news = live().querySelector("[data-say]");
    say(news ? news.textContent : "");
  };

  const offline = (why) => {
    const at = document.getElementById("offline");
    if (!why) {
      lostAt = null;
      at.hidden = true;
      return;
    }
    lostAt = lostAt || new Date();
    at.textContent = "This page is old since " + lostAt.toISOString().slice(11, 19) + ": " + why + " It tries again by itself.";
    at.hidden = false;
    say(at.textContent);
  };

  const refresh = async () => {
    if (document.hidden) return;
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    try {
      const at = new URL(location.href);
      at.searchParams.set("live", "1");
      at.username = at.password = ""; // fetch refuses them
      const got = await fetch(at, { cache: "no-store", signal: AbortSignal.timeout(10000) });
      if (got.ok) {
        swap(await got.text());
        offline("");
      } else {
        offline("the server answers with status " + got.status + ".");
      }
    } catch {
      offline("the server does not answer.");
    }
    last = Date.now();
    setTimeout(() => {
      busy = false;
      if (again) refresh();
    }, spacing);
  };

  // A browser has few connections for one server, so a page that nobody sees has none.
  const open = () => {
    if (stream || document.hidden) return;
    stream = new EventSource("events");
    stream.addEventListener("changed", (e) => {
      if (e.data !== live().dataset.version) refresh();
    });
  };
  const close = () => {
    if (stream) stream.close();
    stream = null;
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      close();
    } else {
      open();
      refresh();
    }
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  setInterval(() => {
    if (document.hidden) return;
    if (stream && stream.readyState === EventSource.CLOSED) close();
    open();
    if (Date.now() - last >= patience) refresh();
  }, 1000);
  open();
})();
