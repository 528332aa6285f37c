// Runs Cursor's own hook engine, as npm's @cursor/sdk ships it, over the hooks files of this HOME.
//
//   node cursor_engine.mjs …/@cursor/sdk/dist/esm/index.js PROJECT VERSION
//
// First prints what it made of the files; then answers each line of standard input, {"step", "input"}, with a line: what the
// hooks of that step said, merged and checked by the engine. Nothing of the package is changed on disk.

import { readdirSync } from "node:fs";
import { registerHooks } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [index, project, version] = process.argv.slice(2);
const ENGINE = "../cursor-sdk-local-runtime/dist/core/hooks-runtime.js";

// The package gives out its agents only; its loader of modules is named by what it keeps them in: `K.m = F`.
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (url !== pathToFileURL(index).href) return loaded;
    const source = loaded.source.toString();
    const loader = /([\w$]+)\.m=[\w$]+[,;]/.exec(source)?.[1];
    if (!loader) throw new Error("the package is built in another way: no loader of modules in index.js");
    return { ...loaded, source: `${source}\nexport const moduleLoader = ${loader};` };
  },
});

const { moduleLoader } = await import(pathToFileURL(index));
for (const name of readdirSync(dirname(index)).filter((each) => /^\d+\.js$/.test(each))) {
  const chunk = await import(pathToFileURL(join(dirname(index), name)));
  Object.assign(moduleLoader.m, chunk.__webpack_esm_modules__);
}
if (!moduleLoader.m[ENGINE]) throw new Error(`the package is built in another way: no ${ENGINE}`);
const starter = Object.values(moduleLoader(ENGINE)).map((make) => make({ globalContext: { cursor_version: version, user_email: null } }))
  .find((made) => "createHooksRuntime" in made);
const hooks = await starter.createHooksRuntime({ workspaceState: { projectRoot: project, workspaceRoots: [project] } });
const { errors, ...sources } = hooks.hooksConfig;
const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
say({
  errors,
  hooks: Object.fromEntries(
    Object.entries(sources).flatMap(([source, config]) => (config?.hooks ? [[source, config.hooks]] : [])),
  ),
});

const { hookExecutor } = hooks.createSessionRuntime();
for await (const line of createInterface({ input: process.stdin })) {
  const { step, input } = JSON.parse(line);
  say((await hookExecutor.executeHookForStep(step, input)) ?? null);
}
process.exit(0);
