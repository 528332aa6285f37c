// Loads a plugin of ours and hands it the events its agent was recorded to send. usage: node replay_plugin.mjs PLUGIN EVENTS
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [plugin, recorded] = process.argv.slice(2);
const made = await import(pathToFileURL(plugin).href);
const events = readFileSync(recorded, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const given = [];

if (made.default) {
  const handlers = {};
  made.default({ on: (name, handler) => (handlers[name] = handler) });
  for (const { ev, e, cwd, hasUI, sessionFile, sessionId } of events) {
    const event = { ...e, systemPromptOptions: { sections: {} } };
    const sessionManager = { getSessionId: () => sessionId, getSessionFile: () => sessionFile };
    const answer = await handlers[ev]?.(event, { cwd, hasUI, sessionManager });
    given.push({ ev, answer, sections: event.systemPromptOptions.sections });
  }
} else {
  const hooks = await made.Cems({ client: { session: { get: async () => ({}) } }, directory: process.cwd() });
  for (const { ev, input, output } of events) {
    if (ev.startsWith("event:")) await hooks.event({ event: { type: ev.slice(6), properties: input } });
    else await hooks[ev === "tool.before" ? "tool.execute.before" : ev](input, output);
    given.push({ ev, output });
  }
}
console.log(JSON.stringify(given));
