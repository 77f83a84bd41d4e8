"use strict";

// Shows the state of the operator, which arrives as one JSON object whenever it has changed.
// Names come from everybody who may create a pod, so they only ever become text: nothing here is parsed as HTML.

const at = (id) => document.getElementById(id);

/** An element with these attributes, and with elements and texts in it. */
function make(tag, attributes, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content.filter((part) => part !== null && part !== ""));
  return element;
}

/** The same for a drawing. */
function draw(tag, attributes, ...content) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
}

const cell = (...content) => make("td", {}, ...content);
const number = (text) => make("td", { class: "number" }, String(text));
const rowHead = (...content) => make("th", { scope: "row" }, ...content);
const row = (...cells) => make("tr", {}, ...cells);
const code = (text) => make("code", {}, text);
/** A name of somebody else's choice: its direction does not change that of the text around it. */
const named = (text) => make("bdi", {}, text);
const faint = (text) => make("span", { class: "faint" }, text);

const many = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

/** A row for a table without any other. */
const nothing = (columns, text) => row(make("td", { colspan: columns, class: "faint" }, text));

function time(text) {
  const moment = new Date(text);
  const isToday = moment.toDateString() === new Date().toDateString();
  const shown = isToday ? moment.toLocaleTimeString() : moment.toLocaleString();
  return make("time", { datetime: text, title: text }, shown);
}

const timeCell = (text) => make("td", { class: "time" }, time(text));

/** Milliseconds for people. */
function span(milliseconds) {
  if (milliseconds < 1) return `${Math.round(milliseconds * 1000)} µs`;
  if (milliseconds < 1000) return `${Number(milliseconds.toPrecision(3))} ms`;
  return `${Number((milliseconds / 1000).toPrecision(3))} s`;
}

/** A digest, short; all of it where the pointer or the focus is. */
function digest(text) {
  const hexadecimal = text.replace(/^sha256:/, "");
  const full = make("span", { class: "full" }, text);
  return make("code", { class: "digest", tabindex: "0" }, hexadecimal.slice(0, 12), full);
}

/** Paths, of which many are behind a summary. */
function paths({ paths, more }, none) {
  if (paths.length + more === 0) return faint(none);
  const list = make("ul", { class: "paths" });
  for (const path of paths) list.append(make("li", {}, path === "" ? "the whole pod" : code(path)));
  if (more > 0) list.append(make("li", { class: "faint" }, `and ${more} more`));
  if (paths.length + more <= 6) return list;
  return make("details", {}, make("summary", {}, `${paths.length + more} paths`), list);
}

/** Calls `show` with a part of the state if it is not what is shown already. So focus and selection stay where they are. */
const shownParts = new Map();
function update(name, part, show) {
  const text = JSON.stringify(part);
  if (shownParts.get(name) === text) return;
  shownParts.set(name, text);
  show(part);
}

function showProblem(id, text) {
  at(id).hidden = text === null;
  at(id).textContent = text ?? "";
}

function showAbout({ replica, version, ready }) {
  at("about").replaceChildren(
    `${replica ?? "an operator"}, version ${version}, `,
    ready ? "ready" : make("span", { class: "bad" }, "not ready"),
  );
  document.title = replica === null ? "Podloom console" : `${replica} - Podloom console`;
}

function showChain({ chain, needsChain, last }) {
  const state = at("chain-state");
  if (chain.digest === null) {
    state.textContent = needsChain ? "No chain is loaded." : "Nothing that runs here needs a chain.";
  } else {
    state.replaceChildren(digest(chain.digest), " serves since ", time(chain.since));
    if (last !== null) state.append(`; it was built and proved in ${span(last)}`);
    state.append(".");
  }
  const error = chain.error;
  const since = error === null ? "" : new Date(error.at).toLocaleTimeString();
  showProblem("chain-error", error && `Refused since ${since}: the content of the plugin directory does not serve. ${error.message}`);
  const rows = chain.plugins.map((plugin) =>
    row(
      rowHead(named(plugin.name)),
      cell(plugin.version),
      cell(digest(plugin.sha256)),
      cell(paths(plugin.allow, "nothing")),
      cell(paths(plugin.read, "nothing else")),
      cell(plugin.failurePolicy === "Fail" ? "the pod is rejected" : "it is left out"),
    ),
  );
  at("plugins-rows").replaceChildren(...(rows.length > 0 ? rows : [nothing(6, "no plugins")]));
}

const isRefused = (attempt) => attempt.error !== null;

function reloadResult(attempt) {
  if (isRefused(attempt)) return make("span", { class: "bad" }, `refused: ${attempt.outcome}`);
  return attempt.outcome === "restored" ? "serves again" : "loaded";
}

function compiled({ outcome, compiled }) {
  if (outcome !== "success") return "";
  return compiled.length > 0 ? `, compiled ${compiled.join(", ")}` : ", nothing had to be compiled";
}

function showReloads(attempts) {
  const rows = attempts.map((attempt) =>
    row(
      timeCell(attempt.at),
      cell(reloadResult(attempt)),
      number(attempt.milliseconds === null ? "" : span(attempt.milliseconds)),
      make("td", { class: "text" }, ...(isRefused(attempt) ? [attempt.error] : [digest(attempt.chain), compiled(attempt)])),
    ),
  );
  at("reloads-rows").replaceChildren(...(rows.length > 0 ? rows : [nothing(4, "none yet")]));
}

/** Says aloud what became of the plugin directory; of nothing else, or a screen reader would never be silent. */
let lastReload;
function announce(attempts) {
  const latest = attempts[0];
  const key = latest ? `${latest.at} ${latest.outcome}` : "";
  if (lastReload !== undefined && lastReload !== key && latest) {
    const when = new Date(latest.at).toLocaleTimeString();
    at("news").textContent = isRefused(latest)
      ? `${when}: a new chain was refused, and the last good one serves. ${latest.error}`
      : `${when}: chain ${latest.chain.replace(/^sha256:/, "").slice(0, 12)} serves${compiled(latest)}.`;
  }
  lastReload = key;
}

/** What a plugin did, in a few words. */
function didWhat(plugin) {
  const refused = plugin.refusedWrites > 0 ? `, ${many(plugin.refusedWrites, "write")} not granted` : "";
  const what = {
    mutated: () => `made ${many(plugin.writes, "write")}`,
    unchanged: () => "wrote nothing",
    skipped: () => "was skipped",
    ignored: () => "failed and was ignored",
    denied: () => "denied the pod",
    failed: () => "failed",
  }[plugin.outcome];
  return `${what ? what() : plugin.outcome}${refused}`;
}

function plugins(pod) {
  if (pod.plugins.length === 0) return faint("no plugin ran");
  const wrote = pod.plugins.filter((plugin) => plugin.paths.length > 0);
  const summary = pod.plugins.map((plugin) => `${plugin.name} ${didWhat(plugin)}`).join("; ");
  if (wrote.length === 0) return make("span", {}, summary);
  const list = make("dl", {});
  for (const plugin of wrote) {
    list.append(make("dt", {}, plugin.name));
    for (const path of plugin.paths) list.append(make("dd", {}, code(path)));
  }
  return make("details", {}, make("summary", {}, summary), list);
}

function podRow(pod) {
  const isBad = pod.verdict !== "allowed";
  const place = pod.namespace === "" ? "" : `${pod.namespace}/`;
  const name = pod.name === "" ? "(no name yet)" : pod.name;
  return row(
    timeCell(pod.at),
    make("th", { scope: "row", class: "text" }, `${pod.kind} `, named(`${place}${name}`), pod.dryRun ? faint(" (dry run)") : null),
    cell(isBad ? make("span", { class: "bad" }, pod.verdict) : pod.verdict),
    number(span(pod.milliseconds)),
    make("td", { class: "text" }, plugins(pod)),
  );
}

/** Rows that are shown stay as they are: somebody may have opened or selected them. */
const podRows = new Map();
function showPods(pods) {
  const body = at("pods-rows");
  const keys = pods.map((pod) => `${pod.number} ${pod.at}`);
  for (const [key, shown] of podRows) {
    if (keys.includes(key)) continue;
    shown.remove();
    podRows.delete(key);
  }
  if (podRows.size === 0) body.replaceChildren();
  let before = body.firstChild;
  pods.forEach((pod, index) => {
    const shown = podRows.get(keys[index]);
    if (shown) {
      before = shown.nextSibling;
      return;
    }
    const made = podRow(pod);
    podRows.set(keys[index], made);
    body.insertBefore(made, before);
  });
  if (pods.length === 0) body.replaceChildren(nothing(5, "none yet"));
}

/** The limit of the bucket in which this part of all calls has come to its end. */
function within(buckets, part) {
  const all = buckets.reduce((sum, bucket) => sum + bucket.calls, 0);
  let sum = 0;
  for (const bucket of buckets) {
    sum += bucket.calls;
    if (sum >= all * part) return bucket.to;
  }
  return null;
}

const bucketName = (to) => (to === null ? "longer" : span(to * 1000));

/** One bar for each bucket: each is twice as long as the one before. The bars are as high as their part of all calls. */
function plot(plugin, buckets, all) {
  const [width, height, base] = [280, 54, 40];
  const step = width / buckets.length;
  const most = Math.max(...buckets.map((bucket) => bucket.calls));
  const filled = buckets.filter((bucket) => bucket.calls > 0);
  const words = filled.map((bucket) => {
    const part = Math.max(1, Math.round((bucket.calls / all) * 100));
    return `${part}% ${bucket.to === null ? "longer" : `up to ${bucketName(bucket.to)}`}`;
  });
  const label = `Calls of ${plugin}: ${words.join(", ")}`;
  const svg = draw("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  svg.append(draw("line", { x1: 0, x2: width, y1: base, y2: base }));
  buckets.forEach((bucket, index) => {
    if (bucket.calls === 0) return;
    const high = Math.max(1, (bucket.calls / most) * (base - 3));
    const bar = { x: index * step + 1, width: step - 2, y: base - high, height: high };
    const hint = draw("title", {}, `${many(bucket.calls, "call")} up to ${bucketName(bucket.to)}`);
    svg.append(draw("rect", bar, hint));
  });
  for (const index of [0, Math.floor(buckets.length / 2), buckets.length - 2]) {
    const x = (index + 1) * step;
    const anchor = index === 0 ? "start" : "middle";
    svg.append(draw("text", { x: index === 0 ? 0 : x, y: height - 3, "text-anchor": anchor }, bucketName(buckets[index].to)));
  }
  return svg;
}

function latencyRow({ plugin, buckets }) {
  const all = buckets.reduce((sum, bucket) => sum + bucket.calls, 0);
  if (all === 0) return row(rowHead(named(plugin)), number(0), number(""), number(""), cell(faint("not called yet")));
  const half = within(buckets, 0.5);
  const most = within(buckets, 0.99);
  const last = buckets.length > 1 ? `over ${bucketName(buckets[buckets.length - 2].to)}` : "";
  return row(
    rowHead(named(plugin)),
    number(all.toLocaleString()),
    number(half === null ? last : bucketName(half)),
    number(most === null ? last : bucketName(most)),
    cell(plot(plugin, buckets, all)),
  );
}

function showLatency(latency) {
  const rows = latency.map(latencyRow);
  at("latency-rows").replaceChildren(...(rows.length > 0 ? rows : [nothing(5, "no plugins")]));
}

const KINDS = {
  browser: "Browsers",
  cleaner: "Cleaners",
  cloud: "Clouds",
  cluster: "Clusters",
  globalcloud: "GlobalClouds",
  globalinfrastructureprovider: "GlobalInfrastructureProviders",
  infrastructureprovider: "InfrastructureProviders",
  portalexpose: "PortalExposes",
};

function countsTable({ controller, works, phases }) {
  const kind = KINDS[controller] ?? controller;
  if (!works) return make("p", {}, `${kind}: this replica stands by, another one works.`);
  const heads = phases.map(({ phase }) => make("th", { scope: "col" }, phase === "None" ? "no phase yet" : phase));
  const counts = phases.map(({ count }) => make("td", {}, count.toLocaleString()));
  const all = phases.reduce((sum, { count }) => sum + count, 0);
  const caption = make("caption", {}, `${kind}: ${all.toLocaleString()}`);
  const table = make("table", { class: "counts" }, caption, make("thead", {}, row(...heads)), make("tbody", {}, row(...counts)));
  return make("div", { class: "wide", role: "region", "aria-label": caption.textContent, tabindex: "0" }, table);
}

function showObjects(objects) {
  at("objects-none").textContent = objects.length > 0 ? "" : "No controller runs here.";
  at("objects-tables").replaceChildren(...objects.map(countsTable));
}

function change({ operation, path, plugins }) {
  const by = plugins.length > 0 ? ` by ${plugins.join(", ")}` : "";
  return make("li", {}, `${operation.toLowerCase()} `, code(path), by);
}

function groupRow(group) {
  const list = make("ul", { class: "paths" }, ...group.changes.map(change));
  if (group.moreChanges > 0) list.append(make("li", { class: "faint" }, `and ${group.moreChanges} more`));
  return row(
    rowHead(group.verdict),
    number(group.pods.toLocaleString()),
    make("td", { class: "text" }, named(group.names.join(", "))),
    make("td", { class: "text" }, list),
  );
}

function showCandidate(candidate) {
  const state = at("candidate-state");
  at("candidate-groups").hidden = candidate === null || candidate.groups.length === 0;
  if (candidate === null) {
    state.textContent = "There is none: --candidate names the directory of a second chain, which is only tried.";
    return showProblem("candidate-error", null);
  }
  const { chain, lastError } = candidate.candidate;
  showProblem("candidate-error", lastError && `Refused: ${lastError.message}`);
  if (chain === null) {
    state.textContent = "No candidate is loaded.";
  } else {
    const counts = ["same", "different", "denied", "failed", "dropped"];
    const shown = counts.map((name) => `${(candidate.pods[name] ?? 0).toLocaleString()} ${name}`);
    state.replaceChildren(digest(chain), `: of the pods that it got, ${shown.join(", ")}`);
    if (candidate.meanMilliseconds !== null) state.append(`; ${span(candidate.meanMilliseconds)} for a pod on average`);
    state.append(".");
  }
  at("candidate-rows").replaceChildren(...candidate.groups.map(groupRow));
}

/** The counts of a rollout, and what people call them. */
const ROLLOUT_COUNTS = [
  ["reviewed", "reviewed"],
  ["denied", "denied"],
  ["failed", "failed in a plugin"],
  ["ready", "ready"],
  ["unready", "not ready in time, or failed"],
  ["restarted", "with a container that restarted"],
];

function showRollout(rollout) {
  const state = at("rollout-state");
  at("rollout-pods").hidden = !rollout?.candidate;
  if (!rollout) {
    state.textContent = "This replica follows no ChainRollout.";
    return;
  }
  const progress = [rollout.phase ?? "nobody judges", rollout.progress].filter((part) => part).join(" ");
  state.replaceChildren("ChainRollout ", named(rollout.name), `: ${progress}${rollout.message ? `: ${rollout.message}` : ""}.`);
  if (!rollout.candidate || !rollout.serving) return;
  state.append(" Candidate ", digest(rollout.candidate), ", serving chain ", digest(rollout.serving), ".");
  const rows = ROLLOUT_COUNTS.map(([name, text]) =>
    row(
      rowHead(text),
      number((rollout.candidatePods[name] ?? 0).toLocaleString()),
      number((rollout.servingPods[name] ?? 0).toLocaleString()),
    ),
  );
  const mean = ({ meanMicroseconds }) => number(meanMicroseconds ? span(meanMicroseconds / 1000) : "");
  rows.push(row(rowHead("time for a pod on average"), mean(rollout.candidatePods), mean(rollout.servingPods)));
  at("rollout-rows").replaceChildren(...rows);
}

function showDrift(drift) {
  const state = at("drift-state");
  at("drift-namespaces").hidden = drift === null || drift.namespaces.length === 0;
  if (drift === null) {
    state.textContent = "Nobody looks: --webhook-drift-interval says how often to look for pods that missed the chain.";
    return;
  }
  const { complete, partial, failed } = drift.looks;
  if (complete + partial === 0) {
    state.textContent = failed > 0 ? "Every look has failed; the log says why." : "This replica has not looked yet; perhaps another one does.";
  } else {
    const { missed, changed, older, ephemeral } = drift.all;
    state.textContent = `${many(missed, "pod")} missed the chain, ${changed} changed after it, ${older} passed an older one, ${ephemeral} have ephemeral containers that the chain would deny or change. `
      + `Looks: ${complete} complete, ${partial} partial, ${failed} failed.`;
  }
  const rows = drift.namespaces.map((counts) =>
    row(rowHead(named(counts.namespace)), number(counts.missed), number(counts.changed), number(counts.older),
      number(counts.ephemeral)),
  );
  if (drift.moreNamespaces > 0) rows.push(nothing(5, `and ${many(drift.moreNamespaces, "namespace")} more`));
  at("drift-rows").replaceChildren(...rows);
}

function showReadiness(checks) {
  const rows = checks.map((check) =>
    row(
      rowHead(check.name),
      cell(check.passed ? "passed" : make("span", { class: "bad" }, "failed")),
      make("td", { class: "text" }, check.text),
    ),
  );
  at("readiness-rows").replaceChildren(...rows);
}

function show(state) {
  const last = state.reloads.find((attempt) => attempt.chain === state.chain.digest && attempt.milliseconds !== null);
  const about = { replica: state.replica, version: state.version, ready: state.ready };
  update("about", about, showAbout);
  update("chain", { chain: state.chain, needsChain: state.needsChain, last: last?.milliseconds ?? null }, showChain);
  update("reloads", state.reloads, showReloads);
  announce(state.reloads);
  update("pods", state.pods, showPods);
  update("latency", state.latency, showLatency);
  update("objects", state.objects, showObjects);
  update("candidate", state.candidate, showCandidate);
  update("rollout", state.candidate === null ? undefined : state.rollout, showRollout);
  update("drift", state.drift, showDrift);
  update("checks", state.checks, showReadiness);
}

let latest = null;
let isPaused = false;

at("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  at("pause").setAttribute("aria-pressed", String(isPaused));
  if (lost === undefined) connected();
  if (!isPaused && latest !== null) show(latest);
});

/** A connection lasts less than a minute, so only one that does not come back is worth a word. */
let lost;
function connected() {
  clearTimeout(lost);
  lost = undefined;
  at("connection").textContent = isPaused ? "Paused" : "Live";
}

function disconnected() {
  lost ??= setTimeout(() => {
    at("connection").replaceChildren(make("span", { class: "bad" }, "Not connected"), ": what is shown is old. Trying again.");
  }, 4000);
}

function listen() {
  const events = new EventSource("/console/events");
  events.onopen = connected;
  events.onmessage = ({ data }) => {
    latest = JSON.parse(data);
    if (!isPaused) show(latest);
  };
  events.onerror = () => {
    disconnected();
    // After a refusal the browser does not try again.
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
}

listen();
