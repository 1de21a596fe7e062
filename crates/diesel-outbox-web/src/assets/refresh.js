// Replaces the page's content by its current state when the server says so. Everything works without it.
"use strict";

const events = document.body.dataset.events;

// Whoever is about to do something should not lose it: an open form, or a marked text.
function isBusy(main) {
  return main.querySelector("details[open], textarea, form :focus") !== null || !getSelection().isCollapsed;
}

async function refresh() {
  const main = document.querySelector("main[data-live]");
  if (main === null || document.hidden || isBusy(main)) return;
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!response.ok || response.redirected) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const next = page.querySelector("main");
  const now = document.querySelector("main[data-live]");
  if (next !== null && now !== null && !isBusy(now)) now.replaceWith(next);
}

if (events && document.querySelector("main[data-live]") !== null) {
  const source = new EventSource(events);
  source.addEventListener("refresh", () => refresh().catch(() => undefined));
  addEventListener("pagehide", () => source.close());
}
