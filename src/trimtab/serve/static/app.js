// The dashboard: lists sessions and studies live, shows one of them, stops and pauses. Plots come from the server as SVG.
"use strict";

const main = document.getElementById("main");
const link = document.getElementById("link");
const state = { isRead: false, sessions: [], studies: [], token: "", shown: null, drawn: "" };
const TITLES = {
  progress: "Progress", drift: "Drift of the baseline", pairs: "Pairs of the proof", latency: "Latency", worth: "Worth of each line",
  by_knobs: "Gain by number of settings", importance: "Importance of the knobs",
  parallel: "Every config over its knobs: from dark (slow) to light (fast), the best in green",
};

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function text(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function seconds(value) {
  if (!Number.isFinite(value) || value < 0) return "–";
  if (value < 90) return `${Math.round(value)} s`;
  return value < 5400 ? `${Math.round(value / 60)} min` : `${(value / 3600).toFixed(1)} h`;
}

function table(kind, caption, columns, rows) {
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col", class: name.startsWith("#") ? "n" : null }, name.replace("#", ""))));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell, index) => make("td", {
    class: columns[index].startsWith("#") ? "n" : null, "data-what": index ? columns[index].replace("#", "") : "",
  }, cell instanceof Node ? cell : text(cell)))));
  return make("div", { class: "wide" }, make("table", { class: kind }, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body)));
}

function badge(status) {
  const kinds = { proven: "good", running: "good", paused: "warn", no_improvement: "warn", interrupted: "warn", stopped: "warn", crashed: "bad" };
  return make("span", { class: kinds[status] || "soft" }, status.replaceAll("_", " "));
}

async function api(path, body) {
  const options = { headers: state.token ? { Authorization: `Bearer ${state.token}` } : {} };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(`/api/v1${path}`, options);
  if (answer.status === 401) {
    askToken();
    throw new Error("the server asks for a token");
  }
  const kind = answer.headers.get("content-type") || ""; // a proxy answers with a page of its own, or with nothing
  const found = kind.includes("json") ? await answer.json() : await answer.text();
  if (!answer.ok) throw new Error([found.detail || `the server answered with status=${answer.status}`, found.hint].filter(Boolean).join("; "));
  return found;
}

function askToken() {
  if (document.getElementById("token")) return;
  const field = make("input", { id: "token", type: "password", autocomplete: "off", required: "" });
  const form = make("form", {}, make("label", { for: "token" }, "Token of this server"), field, make("button", {}, "Open"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    main.replaceChildren();
    route();
    watch();
  });
  main.replaceChildren(make("h2", {}, "Token"), make("p", {}, "It is in TRIMTAB_TOKEN of the server, or in the file serve.token of its state directory."), form);
  field.focus();
}

function keepToken(token) {
  state.token = token;
  sessionStorage.setItem("token", token);
}

async function act(button, path) {
  button.disabled = true;
  try {
    await api(path, {});
    link.textContent = `${button.textContent}: done`;
  } catch (error) {
    link.textContent = `${button.textContent}: ${error.message}`;
  }
  button.disabled = false;
}

// ---- the list

function share(row) {
  const most = /^(\d+) trials?$/.exec(row.budget || "");
  return most ? Math.min(1, row.n_trials / (Number(most[1]) + 9)) : null;
}

function left(row) {
  const done = share(row);
  if (!done || row.state !== "running") return null;
  return (Date.now() / 1000 - row.created_at) * (1 - done) / done;
}

function sessionRow(row) {
  const done = share(row);
  const best = row.best ? `${text(row.best.gain)} times${row.best.is_proven ? ", proven" : ""}` : "–";
  const out = (row.running || []).filter((each) => each.client).length;
  return [
    make("a", { href: `#/study/${row.study_id}` }, row.name), badge(row.state === "ended" ? row.status : row.state), row.n_trials,
    best, row.n_clients ?? 0, out,
    done === null ? text(row.budget) : make("progress", { value: done, max: 1, "aria-label": `${Math.round(100 * done)} % of the budget` }),
    left(row) === null ? "–" : `about ${seconds(left(row))}`,
  ];
}

// Before the first look at the history nobody knows whether it is empty.
function noneYet(how) {
  return make("p", { class: "soft" }, state.isRead ? `None yet. ${how}` : "Reading the history …");
}

function showList() {
  const sessions = [...state.sessions].reverse();
  const studies = [...state.studies].reverse();
  main.replaceChildren(
    make("h2", {}, "Sessions"),
    sessions.length ? table("list", `${sessions.length} ${sessions.length === 1 ? "session" : "sessions"}, the newest first`, ["name", "state", "#trials", "#best", "#clients", "#measuring", "budget", "left"], sessions.slice(0, 500).map(sessionRow))
      : noneYet("A program begins one with a client, or `trimtab exec --server`."),
    make("h2", {}, "Studies"),
    studies.length ? table("list", `${studies.length} ${studies.length === 1 ? "study" : "studies"} of the history, the newest first`, ["name", "status", "#trials", "target", "workload", "objective"],
      studies.slice(0, 500).map((row) => [make("a", { href: `#/study/${row.id}` }, row.name), badge(row.status), row.n_trials, row.target, row.workload, row.objective]))
      : noneYet("`trimtab tune` makes them."),
    make("div", { id: "files" }),
  );
  showFiles();
}

async function showFiles() {
  const found = await api("/study-files").catch(() => ({ files: [] }));
  const place = document.getElementById("files");
  if (!place || !found.files.length) return;
  place.replaceChildren(make("h2", {}, "Start a study"), make("div", { class: "buttons" }, ...found.files.map((file) => {
    const button = make("button", { onclick: async () => {
      button.disabled = true;
      try {
        link.textContent = `started ${(await api("/studies", { file })).started}`;
      } catch (error) {
        link.textContent = error.message;
      }
      button.disabled = false;
    } }, file);
    return button;
  })));
}

// ---- one study

function fact(name, value) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, value instanceof Node ? value : text(value)));
}

function buttons(id, row) {
  const path = (what) => `/sessions/${row.name}/${what}`;
  const one = (name, where, question) => {
    const button = make("button", { onclick: () => (!question || window.confirm(question)) && act(button, where) }, name);
    return button;
  };
  if (row && row.state !== "ended") {
    return make("div", { class: "buttons" }, row.state === "paused" ? one("Resume", path("resume")) : one("Pause", path("pause")),
      one("Finish with a proof", path("finish")), one("Stop", path("stop"), `Stop session ${row.name} without a proof?`));
  }
  const study = state.studies.find((each) => each.id === id);
  return study && study.status === "running" && !study.origin ? make("div", { class: "buttons" }, one("Stop", `/studies/${id}/stop`, `Stop study ${study.name}?`)) : null;
}

function sizeText(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${Number(size.toPrecision(3))} ${units[unit]}`;
}

// A line of the last seconds; what is drawn are numbers only.
function curve(title, seconds, column, colour) {
  const values = seconds.map((each) => each[column] || 0);
  const most = Math.max(...values, 1e-9);
  const points = values.map((value, i) => `${(10 + 430 * i / Math.max(1, values.length - 1)).toFixed(1)},${(84 - 72 * value / most).toFixed(1)}`);
  const svg = `<svg viewBox="0 0 450 92" role="img" aria-label="${title}, the last ${values.length} seconds, from 0 to ${text(most)}">`
    + `<path d="M10,84H440" class="axis"/><path d="M${points.join("L")}" fill="none" stroke="${colour}" stroke-width="2"/></svg>`;
  const node = new DOMParser().parseFromString(svg, "text/html").body.firstElementChild;
  return make("figure", {}, node, make("figcaption", {}, `${title}: ${text(values.at(-1))} now, ${text(most)} at most`));
}

// What a study of the command line does this second.
function nowOfStudy(now) {
  if (!now) return null;
  const trial = now.trial;
  const last = now.seconds.at(-1);
  const changes = trial ? Object.entries(trial.changed).map(([name, value]) => `${name}=${value}`).join(" ") || "nothing: the baseline" : "";
  return make("section", {}, make("h3", {}, "Now"), make("p", {}, trial ? `trial ${trial.number} (${trial.role.replaceAll("_", " ")}), ${now.step || "starting"}: ${changes}` : now.phase),
    last ? make("p", {}, `${text(last[1])} operations a second, p50 ${text(last[2])} ms, p95 ${text(last[3])} ms, p99 ${text(last[4])} ms, ${last[5]} errors${last[6] >= 0.01 ? `, stolen by the hypervisor ${text(100 * last[6])} % of a core` : ""}`) : null,
    last ? make("div", { class: "charts small" }, curve("operations a second", now.seconds, 1, "#2a9d6f"), curve("p95 in ms", now.seconds, 3, "#3b82c4")) : null,
    now.left_s ? make("p", { class: "soft" }, `about ${seconds(now.left_s)} of the budget left`) : null);
}

function memoryTable(memory) {
  if (!memory) return null;
  const sum = (column) => sizeText(memory.consumers.reduce((total, each) => total + each[column], 0));
  const rows = memory.consumers.map((each) => [each[0], sizeText(each[1]), sizeText(each[2])]);
  return make("section", {}, make("h3", {}, "Memory"), table("", memory.budget ? `budget ${sizeText(memory.budget)}` : "no budget is known",
    ["what", "#baseline", "#best"], [...rows, ["all", sum(1), sum(2)]]));
}

function runningTable(row) {
  const rows = (row && row.running) || [];
  if (!rows.length) return null;
  return make("section", {}, make("h3", {}, "Now"), table("", "Points that are out or wait for a client", ["#trial", "role", "client", "#seconds", "changes"],
    rows.slice(0, 100).map((each) => [each.number === null ? "shared" : each.number, each.role, each.client || "waits", each.seconds,
      Object.entries(each.changed).map(([name, value]) => `${name}=${value}`).join(" ") || "nothing: the baseline"])));
}

function clientTable(clients) {
  if (!clients || !clients.length) return null;
  const now = Date.now() / 1000;
  return make("section", {}, make("h3", {}, "Clients"), table("", "Speed: of the machine, against the first client's, where layer machines is used", ["client", "#reports", "#speed", "#seen"],
    clients.slice(0, 100).map((each) => [each.name || "no name", each.n_reports, each.speed, `${seconds(Math.max(0, now - each.seen_at))} ago`])));
}

function nowOf(id) {
  const study = state.studies.find((each) => each.id === id);
  return study ? study.now : null;
}

// What a session does, how a study stands; undefined before the first look at the history.
function stateOf(id, row) {
  const study = state.studies.find((each) => each.id === id);
  return row ? row.state : study && study.status;
}

async function showStudy(id) {
  const token = (state.shown = { id, isLoading: true });
  let found;
  try {
    found = await api(`/studies/${id}`);
  } catch (error) { // of another page than the one that is shown now, or for want of a token, which is asked for
    if (state.shown === token && !document.getElementById("token")) {
      main.replaceChildren(make("p", { class: "bad" }, error.message));
      token.isLoading = false; // a server that answers again is asked again
    }
    return;
  }
  const row = state.sessions.find((each) => each.study_id === id);
  // One without clients here may be another process's: asking for it would take it over.
  const session = row && row.state !== "ended" && row.n_clients ? await api(`/sessions/${row.name}`).catch(() => ({})) : {};
  if (state.shown !== token) return;
  token.isRead = state.isRead;
  const s = found.summary;
  const names = Object.keys(found.best).filter((name) => found.best[name] !== found.baseline[name]);
  const gain = s.gain ? `${text(s.gain.estimate)} (${text(s.gain.low)} to ${text(s.gain.high)})` : row && row.best ? text(row.best.gain) : text(s.best && s.best.gain && s.best.gain.estimate);
  const others = [...state.sessions.map((each) => ({ id: each.study_id, name: each.name })), ...state.studies].filter((each) => each.id !== id);
  const chooser = make("select", { id: "other" }, make("option", { value: "" }, "choose"), ...others.slice(-200).map((each) => make("option", { value: each.id }, `${each.name} #${each.id}`)));
  chooser.addEventListener("change", () => compare(id, chooser.value));
  const parts = [
    make("p", {}, make("a", { href: "#/" }, "All sessions and studies")),
    make("h2", {}, found.name), make("p", {}, s.headline),
    make("div", { id: "buttons" }, buttons(id, row)),
    make("dl", { class: "facts" }, fact("state", make("span", { id: "state" }, badge(row && row.state !== "ended" ? row.state : found.status))), fact("trials", found.n_trials),
      fact("budget", found.budget), fact("gain", gain), fact("noise of the baseline", s.noise_floor === null ? null : `${text(100 * s.noise_floor)} %`),
      fact("objective", s.objective), row ? fact("clients", row.n_clients) : null, row && left(row) !== null ? fact("left, about", seconds(left(row))) : null),
    make("div", { id: "now" }, runningTable(row), nowOfStudy(nowOf(id))),
    make("section", {}, make("h3", {}, "Plots"), make("div", { id: "charts", class: "charts" }), make("div", { class: "buttons" },
      make("button", { onclick: () => draw(id, true) }, "Show which knobs matter"), make("a", { href: "#", id: "report" }, "Open the whole report"))),
    make("section", {}, make("h3", {}, "Best config against the baseline"), names.length
      ? table("", `${names.length} of ${Object.keys(found.baseline).length} knobs differ`, ["knob", "#baseline", "#best"], names.map((name) => [name, found.texts.baseline[name], found.texts.best[name]]))
      : make("p", { class: "soft" }, "Nothing better than the baseline yet.")),
    make("section", {}, make("form", {}, make("label", { for: "other" }, "Compare with"), chooser), make("div", { id: "compared", role: "status" })),
    memoryTable(s.memory), clientTable(session.clients),
    s.apply_command ? make("section", {}, make("h3", {}, "Apply and undo"), make("pre", {}, `${s.apply_command}\n${s.undo_command}`)) : null,
    found.failures.length ? make("section", {}, make("h3", {}, "Failures"), ...found.failures.map((each) => make("pre", {}, `${each.numbers.length === 1 ? "once" : `${each.numbers.length} times, first`} in trial ${each.numbers[0]}: ${each.status}: ${each.reason}\n${each.log.join("\n")}`))) : null,
    make("section", {}, make("h3", {}, "Latest trials"), table("", `the last ${Math.min(50, found.rows.length)} of ${found.n_trials}`, ["#trial", "role", "status", "#value", "#gain", "changes"],
      found.rows.slice(-50).reverse().map((each) => [each.number, each.role, badge(each.status), each.value, each.gain ? each.gain.estimate : null,
        Object.entries(each.changed).map(([name, value]) => `${name}=${value}`).join(" ")]))),
  ];
  main.replaceChildren(...parts.filter(Boolean));
  document.getElementById("report").addEventListener("click", (event) => openReport(event, id));
  token.isLoading = false;
  token.n = found.n_trials;
  token.status = found.status;
  token.state = stateOf(id, row);
  performance.mark("facts");
  await draw(id, false);
  performance.mark("plots");
}

async function draw(id, more) {
  const found = await api(`/studies/${id}/charts${more ? "?more=1" : ""}`).catch((error) => ({ charts: {}, error }));
  const place = document.getElementById("charts");
  if (!place || !state.shown || state.shown.id !== id) return;
  const figures = Object.entries(found.charts).map(([name, svg]) => {
    const node = new DOMParser().parseFromString(svg, "text/html").body.firstElementChild;
    return make("figure", { id: `chart-${name}` }, node, make("figcaption", {}, TITLES[name] || name.replaceAll("_", " ")));
  });
  if (found.text) figures.push(make("p", {}, found.text));
  place.replaceChildren(...(figures.length ? figures : [make("p", { class: "soft" }, found.error ? found.error.message : "No trial was measured yet.")]));
}

async function compare(id, other) {
  const place = document.getElementById("compared");
  if (!other) return place.replaceChildren();
  const found = await api(`/studies/${id}/compare?with=${other}`).catch((error) => ({ knobs: [], error }));
  if (!place.isConnected || document.getElementById("other").value !== other) return undefined; // another one was chosen meanwhile
  place.replaceChildren(found.error ? make("p", { class: "bad" }, found.error.message)
    : table("", `${found.knobs.length} knobs differ, ${found.n_same} agree`, ["knob", "#this", "#other"], found.knobs.map((each) => [each.knob, ...each.texts])));
  return undefined;
}

// The report is a page of its own, and the token goes with no link: it is fetched, and opened from memory.
async function openReport(event, id) {
  event.preventDefault();
  const opened = window.open("", "_blank");
  try {
    const page = await api(`/studies/${id}/report`);
    opened.location = URL.createObjectURL(new Blob([page], { type: "text/html" }));
  } catch (error) {
    opened.close();
    link.textContent = error.message;
  }
}

// ---- live

function refresh() {
  if (!state.shown) {
    if (!main.contains(document.activeElement) || document.activeElement === main) showList();
    return;
  }
  const id = state.shown.id;
  const row = state.sessions.find((each) => each.study_id === id);
  const known = row || state.studies.find((each) => each.id === id);
  const now = document.getElementById("now");
  if (!now) {
    if (known && !state.shown.isLoading) showStudy(id);
    return;
  }
  now.replaceChildren(...[runningTable(row), nowOfStudy(nowOf(id))].filter(Boolean));
  if (known && stateOf(id, row) !== state.shown.state) {
    state.shown.state = stateOf(id, row);
    const place = document.getElementById("buttons");
    const hadFocus = place.contains(document.activeElement);
    place.replaceChildren(...[buttons(id, row)].filter(Boolean));
    if (hadFocus && place.querySelector("button")) place.querySelector("button").focus();
    document.getElementById("state").replaceChildren(badge(row && row.state !== "ended" ? row.state : known.status));
  }
  const isBusy = ["SELECT", "BUTTON"].includes(document.activeElement.tagName) && known && known.status === "running";
  // What has ended has a verdict, and as a rule no other trial; a page that was opened first knew of no other study.
  const isOld = known && (known.n_trials !== state.shown.n || known.status !== state.shown.status || !state.shown.isRead);
  if (isOld && !isBusy && !state.shown.isLoading) showStudy(id);
}

async function watch() {
  const options = { headers: state.token ? { Authorization: `Bearer ${state.token}` } : {} };
  for (;;) {
    try {
      const answer = await fetch("/api/v1/events", options);
      if (answer.status === 401) return askToken();
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      link.textContent = "live";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          const data = part.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
          if (data) {
            Object.assign(state, JSON.parse(data), { isRead: true });
            refresh();
          }
        }
      }
    } catch {
      // what follows says so
    }
    link.textContent = "not connected; trying again";
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

function route() {
  const study = /^#\/study\/(\d+)$/.exec(location.hash);
  state.shown = null;
  if (study) showStudy(Number(study[1]));
  else showList();
}

// The part of an address behind # is never sent: the token goes from there into the tab's own memory.
function takeToken() {
  const given = /^#token=([^;]+)(?:;(\/.*))?$/.exec(location.hash);
  if (!given) return false;
  keepToken(decodeURIComponent(given[1]));
  history.replaceState(null, "", given[2] ? `/#${given[2]}` : "/");
  return true;
}

takeToken();
state.token = state.token || sessionStorage.getItem("token") || "";
window.addEventListener("hashchange", () => {
  if (location.hash === "#main") return main.focus();
  if (takeToken()) return location.reload();
  route();
  main.focus();
  return undefined;
});
route();
watch();
