// The reader's controls, kept in this browser. They fold and unfold; nothing becomes unreachable,
// and without this script everything is unfolded.
(() => {
  const DEFAULTS = { level: "learner", budget: "none" };
  const DEVICE = { none: "cpu", one: "h200", eight: "h200-x8" };
  const VALUES = { level: ["learner", "engineer"], budget: Object.keys(DEVICE) };
  const root = document.documentElement;

  const load = (name) => {
    try { return localStorage.getItem(`lab-${name}`) || DEFAULTS[name]; } catch { return DEFAULTS[name]; }
  };
  const keep = (name, value) => {
    try { localStorage.setItem(`lab-${name}`, value); } catch { /* private window: only this page */ }
  };

  // The device that a budget puts in front, among the devices of one example.
  const front = (blocks) => {
    const wanted = DEVICE[root.dataset.budget];
    const has = (name) => blocks.some((block) => block.classList.contains(`device-${name}`));
    if (has(wanted)) return wanted;
    return wanted !== "cpu" && has("h200") ? "h200" : null;
  };

  const foldDevices = () => {
    // Devices of one result follow one another directly. A common parent isn't enough: charts and
    // tables of all examples stand in the same article.
    const groups = [];
    for (const block of document.querySelectorAll("details.device")) {
      const last = groups.at(-1);
      if (last && block.previousElementSibling === last.at(-1)) last.push(block);
      else groups.push([block]);
    }
    for (const blocks of groups) {
      const name = front(blocks);
      // Where nothing suits the budget, what there is stays open.
      for (const block of blocks) block.open = !name || block.classList.contains(`device-${name}`);
    }
  };

  const foldBy = (name) => {
    for (const value of VALUES[name])
      for (const block of document.querySelectorAll(`details.${name}-${value}`))
        block.open = value === root.dataset[name];
  };

  const apply = (name) => {
    foldBy(name);
    if (name === "budget") foldDevices();
  };

  for (const name of Object.keys(DEFAULTS)) {
    root.dataset[name] = load(name);
    for (const input of document.querySelectorAll(`input[name="lab-${name}"]`)) {
      input.checked = input.value === root.dataset[name];
      input.addEventListener("change", () => {
        root.dataset[name] = input.value;
        keep(name, input.value);
        apply(name);
      });
    }
    apply(name);
  }

  // A link into something folded unfolds it.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target.parentElement; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();

  // A title is shown by pointing at it, which a finger can't: a tap on a number says it below.
  const told = document.createElement("p");
  told.className = "lab-told";
  told.setAttribute("role", "status");
  told.hidden = true;
  document.body.append(told);
  addEventListener("click", (event) => {
    const number = event.target.closest && event.target.closest(".lab-number");
    told.hidden = !number;
    told.textContent = number ? `${number.textContent}: ${number.title}` : "";
  });

  // Printing shows everything, and leaves the page as it was.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const block of folded) block.open = true;
  });
  addEventListener("afterprint", () => {
    for (const block of folded) block.open = false;
  });

  // What scrolls must be reachable by keyboard; Markdown's own code blocks and tables are not, and
  // the theme wraps the tables only when everything is loaded.
  addEventListener("load", () => {
    for (const box of document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap"))
      if (box.scrollWidth > box.clientWidth && !box.closest("[tabindex]")) box.tabIndex = 0;
  });

  // Material's own copy button makes a landmark of each block of code, all of the same name.
  const copied = navigator.clipboard ? document.querySelectorAll(".md-typeset .highlight pre") : [];
  for (const pre of copied) {
    const button = document.createElement("button");
    button.className = "lab-copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const lines = [...pre.querySelectorAll(".lab-line")].map((line) => {
        const copy = line.cloneNode(true);
        for (const extra of copy.querySelectorAll(".linenos, .lab-mark")) extra.remove();
        return copy.textContent;
      });
      await navigator.clipboard.writeText(lines.join("") || pre.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    pre.parentElement.append(button);
  }
})();

// Traces: "Open in Perfetto" hands the file over inside the browser, as the Perfetto UI documents it:
// open its window, send PING until PONG comes back, then post the file once. Nothing is fetched, and
// no other site is asked for anything, before the click. A host that sends the header
// Cross-Origin-Opener-Policy: same-origin cuts the two windows apart; then only the link works.
(() => {
  const PERFETTO = "https://ui.perfetto.dev";
  const PING_MS = 100;
  const PATIENCE_S = 30;

  const download = async (url) => {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.arrayBuffer();
  };

  // Resolves when the window has answered; rejects when it is closed or says nothing for too long.
  const ready = (other) => new Promise((resolve, reject) => {
    const end = (settle, value) => {
      clearInterval(pings);
      removeEventListener("message", hear);
      settle(value);
    };
    const hear = (event) => {
      if (event.source === other && event.origin === PERFETTO && event.data === "PONG") end(resolve);
    };
    const start = Date.now();
    const pings = setInterval(() => {
      if (other.closed) end(reject, new Error("its window was closed"));
      else if (Date.now() - start > PATIENCE_S * 1000) end(reject, new Error(`it did not answer within ${PATIENCE_S} s`));
      else other.postMessage("PING", PERFETTO);
    }, PING_MS);
    addEventListener("message", hear);
  });

  const open = async (box, say) => {
    const link = box.querySelector("a");
    const other = window.open(PERFETTO); // first, or the browser no longer sees that it was a click
    if (!other) return say("The browser blocked the new window. Allow this page to open one, or download the file and open it at ui.perfetto.dev.");
    say("Opening …");
    try {
      const waiting = ready(other);
      waiting.catch(() => {}); // the download may fail first
      const buffer = await download(link.href).catch((error) => {
        other.close();
        throw new Error(`the file could not be fetched (${error.message})`);
      });
      await waiting;
      const fileName = link.pathname.split("/").pop();
      other.postMessage({ perfetto: { buffer, title: box.dataset.trace, fileName } }, PERFETTO);
      say("Handed over to the Perfetto window.");
    } catch (error) {
      say(`Not opened: ${error.message}. You can download the file and open it at ui.perfetto.dev.`);
    }
  };

  for (const box of document.querySelectorAll(".lab-trace")) {
    const button = box.querySelector("button");
    const status = box.querySelector("[role=status]");
    button.addEventListener("click", async () => {
      button.disabled = true;
      await open(box, (text) => { status.textContent = text; });
      button.disabled = false;
    });
    box.querySelector(".lab-trace__open").hidden = false;
  }
})();
