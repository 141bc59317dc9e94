// One whole flow with the official TypeScript client; prints what it saw as one line of JSON.
import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { RunloopSDK } from '@runloop/api-client';

const [mark, logs] = process.argv.slice(2);
const sdk = new RunloopSDK({
  bearerToken: process.env.RUNLOOP_API_KEY,
  baseURL: process.env.RUNLOOP_BASE_URL,
});
const polling = { polling: { pollingIntervalMs: 100 } };

// By the generated client: scenarios, a benchmark, its run.
const created = await sdk.api.scenarios.create({
  name: `${mark} greeting ✓`,
  input_context: { problem_statement: 'write `hello` into greeting.txt', additional_context: { hint: 'echo' } },
  scoring_contract: {
    scoring_function_parameters: [
      { name: 'text', weight: 0.75, scorer: { type: 'bash_script_scorer', bash_script: 'grep -qx hello ~/greeting.txt && echo score=1.0 || echo score=0.0' } },
      { name: 'size', weight: 0.25, scorer: { type: 'command_scorer', command: 'test $(wc -c < ~/greeting.txt) -gt 100' } },
    ],
  },
  metadata: { mark },
});
const built = await sdk.scenario
  .builder(`${mark} built`)
  .withProblemStatement('make a file `done`')
  .withWorkingDirectory('/srv/task')
  .addTestCommandScorer('tests', { test_command: 'sh check.sh', test_files: [{ file_path: 'check.sh', file_contents: 'test -e done\n' }] })
  .push();
const benchmark = await sdk.api.benchmarks.create({ name: `${mark} benchmark`, scenario_ids: [created.id] });
const updated = await sdk.api.benchmarks.updateScenarios(benchmark.id, { scenarios_to_add: [built.id] });
assert.deepEqual(updated.scenarioIds, [created.id, built.id]);
const definitions = await sdk.api.benchmarks.definitions(benchmark.id);
assert.deepEqual(definitions.scenarios.map((each) => each.id), [created.id, built.id]);

const benchmarkRun = await sdk.api.benchmarks.startRun({
  benchmark_id: benchmark.id,
  run_name: 'from typescript',
  runProfile: { envVars: { GREETING: 'hello' } },
});
assert.deepEqual(benchmarkRun.pending_scenarios, [created.id, built.id]);

// The first scenario by the generated client.
const first = await sdk.api.scenarios.startRunAndAwaitEnvReady(
  { scenario_id: created.id, benchmark_run_id: benchmarkRun.id, metadata: { agent: 'node' } },
  polling,
);
assert.equal(first.scenario.input_context.problem_statement, 'write `hello` into greeting.txt');
const execution = await sdk.api.devboxes.executeAndAwaitCompletion(first.devbox_id, {
  command: 'echo $GREETING > ~/greeting.txt; cat ~/greeting.txt',
});
assert.equal(execution.exit_status, 0);
assert.equal(execution.stdout, 'hello\n');
const scored = await sdk.api.scenarios.runs.scoreAndAwait(first.id, polling);
assert.equal(scored.state, 'scored');
const completed = await sdk.api.scenarios.runs.complete(first.id);
assert.equal(completed.state, 'completed');

// The second one as objects.
const second = await sdk.scenario.fromId(built.id).run({ benchmark_run_id: benchmarkRun.id }, polling);
const result = await second.devbox.cmd.exec('touch /srv/task/done && echo made');
assert.equal(result.exitCode, 0);
assert.equal(await result.stdout(), 'made\n');
const ended = await second.scoreAndComplete(polling);
assert.equal(ended.state, 'completed');
const score = await second.getScore();
await second.downloadLogs(logs);
assert.ok(existsSync(logs) && statSync(logs).size > 0);

// What was left: lists, and the score of the whole.
const runs = [];
for await (const each of sdk.api.benchmarkRuns.listScenarioRuns(benchmarkRun.id, { limit: 1 })) runs.push(each.id);
assert.deepEqual(runs, [second.id, first.id]);
const found = [];
for await (const each of sdk.api.benchmarks.list({ name: `${mark} benchmark` })) found.push(each.id);
assert.deepEqual(found, [benchmark.id]);
const total = await sdk.api.benchmarkRuns.complete(benchmarkRun.id);
await assert.rejects(sdk.api.scenarios.retrieve('scn_none'), (error) => error.status === 404);
await assert.rejects(
  sdk.api.scenarios.startRun({ scenario_id: created.id, benchmark_run_id: benchmarkRun.id }),
  (error) => error.status === 400 && /start another/.test(error.message),
);

console.log(
  JSON.stringify({
    scenarioRuns: [first.id, second.id],
    benchmarkRun: benchmarkRun.id,
    scores: [scored.scoring_contract_result.score, score.score],
    results: scored.scoring_contract_result.scoring_function_results.map((each) => [each.scoring_function_name, each.score, each.state]),
    state: total.state,
    total: total.score,
  }),
);
