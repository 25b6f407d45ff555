"use strict";

const REGIONS = [
  "system_instruction", "key_decision", "tool_summary", "recent_dialogue", "ordinary_context",
];
const EVERY_MS = 2000;
const WIDTH = 600;
const HEIGHT = 100;
const SVG = "http://www.w3.org/2000/svg";

const part = (id) => document.getElementById(id);
const words = (name) => name.replaceAll("_", " ");
const whole = (number) => Math.round(number).toLocaleString("en");

function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) { number /= 1024; unit += 1; }
  return `${unit ? number.toFixed(1) : number} ${units[unit]}`;
}

// Texts of sessions reach the page as text nodes only: a name can't bring markup.
function make(tag, className, ...inside) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...inside);
  return element;
}

function draw(tag, className, attributes) {
  const element = document.createElementNS(SVG, tag);
  if (className) element.setAttribute("class", className);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

async function read(path) {
  // From the origin: the page's own address may bear credentials, which fetch refuses.
  const answer = await fetch(new URL(path, location.origin), { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
  return answer.json();
}

function figure(value, label) {
  return make("div", "figure", make("b", "", value), make("span", "", label));
}

function showMemory(status) {
  part("model").textContent = status.model;
  const hits = status.prompt_tokens_total
    ? `${Math.round((100 * status.cached_tokens_total) / status.prompt_tokens_total)} %` : "none";
  const evicted = Object.values(status.evicted_tokens_total).reduce((sum, n) => sum + n, 0);
  part("figures").replaceChildren(
    figure(whole(status.num_running), "requests running"),
    figure(whole(status.num_waiting), "requests waiting"),
    figure(`${Math.round(100 * status.watermark_level)} %`, "of the KV memory promised"),
    figure(bytes(status.occupied_bytes), "of KV memory filled"),
    figure(hits, "of prompt tokens cached"),
    figure(whole(evicted), "tokens evicted"),
  );
  const tiers = { ...status.tiers, "prefix cache": status.prefix_cache };
  part("tiers").replaceChildren(...Object.entries(tiers).map(([name, tier]) => {
    const limit = tier.limit_bytes === null ? "no limit" : `of ${bytes(tier.limit_bytes)}`;
    const meter = make("meter", "");
    meter.max = tier.limit_bytes || 1;
    meter.value = tier.limit_bytes ? tier.used_bytes : 0;
    meter.setAttribute("aria-label", `${name}: ${bytes(tier.used_bytes)} ${limit}`);
    const about = `${bytes(tier.used_bytes)} ${limit}, ${whole(tier.num_sessions)} entries`;
    return make("div", "tier", make("b", "", name), meter, make("span", "", about));
  }));
}

function showLegend() {
  part("legend").replaceChildren(...REGIONS.map((region) => (
    make("span", "", make("span", `swatch ${region}`), words(region))
  )));
}

// Kept tokens by region, stacked, over the tokens that the session has seen.
function chart(session) {
  const now = { ...session };
  const moments = [...session.history, now].filter((moment) => moment.tokens_seen > 0);
  const svg = draw("svg", "", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `Tokens kept by region over the tokens seen: ${session.tokens_kept} of `
      + `${session.tokens_seen} kept`,
  });
  const last = Math.max(1, session.tokens_seen);
  const most = Math.max(1, ...moments.map((moment) => moment.tokens_kept));
  const x = (moment) => (WIDTH * moment.tokens_seen) / last;
  const y = (count) => HEIGHT - (HEIGHT * count) / most;
  let below = moments.map(() => 0);
  for (const region of REGIONS) {
    const bottom = below;
    below = moments.map((moment, i) => bottom[i] + (moment.kept_per_region[region] || 0));
    const upper = moments.map((moment, i) => `${x(moment)},${y(below[i])}`);
    const lower = moments.map((moment, i) => `${x(moment)},${y(bottom[i])}`).reverse();
    if (moments.length) {
      const start = [`0,${y(bottom[0])}`, `0,${y(below[0])}`];
      svg.append(draw("polygon", region, { points: [...start, ...upper, ...lower].join(" ") }));
    }
  }
  const axis = make("div", "axis",
    make("span", "", "0 tokens seen"),
    make("span", "", `height: ${whole(most)} kept`),
    make("span", "", `${whole(session.tokens_seen)} tokens seen`));
  return [svg, axis];
}

function table(session) {
  const head = make("tr", "", ...["region", "kept", "evicted"].map((text) => make("th", "", text)));
  const rows = REGIONS.map((region) => make("tr", "",
    make("th", "", make("span", `swatch ${region}`), words(region)),
    make("td", "", whole(session.kept_per_region[region] || 0)),
    make("td", "", whole(session.evicted_per_region[region] || 0))));
  return make("table", "", make("thead", "", head), make("tbody", "", ...rows));
}

function card(session) {
  const place = session.tier === "none" ? "given up, the next turn reads all again" : session.tier;
  const about = `${session.is_running ? "running" : `idle ${whole(session.idle_s)} s`} · ${place}`
    + ` · ${whole(session.num_turns)} turns · ${bytes(session.kv_bytes)}`;
  return make("article", "session",
    make("div", "top", make("h3", "", session.id), make("span", "about", about)),
    ...chart(session), table(session));
}

function showSessions(list) {
  part("none").hidden = list.data.length > 0;
  part("sessions").replaceChildren(...list.data.map(card));
}

async function refresh() {
  const news = part("news");
  try {
    const [status, sessions] = await Promise.all([read("/v1/status"), read("/v1/sessions")]);
    showMemory(status);
    showSessions(sessions);
    news.className = "";
    news.textContent = `Updated ${new Date().toLocaleTimeString("en-GB")}`;
  } catch (error) {
    news.className = "bad";
    news.textContent = `No news from the server: ${error.message}`;
  }
  setTimeout(refresh, EVERY_MS);
}

showLegend();
refresh();
