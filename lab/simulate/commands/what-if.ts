import { mkdir, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import { showProgress } from '../../../core/commands/progress.ts'
import { BrimError, orThrow } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { nonEmpty, off } from '../../../core/kit/base/setting-kinds.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { whatIfGoals } from '../../../core/wire/protocol/http/what-if.ts'
import { layOutTable } from '../../plot/table.ts'
import { dataOption, defaultDataFolder } from '../run/data-folder.ts'
import { runAll } from '../run/run-all.ts'
import { type FleetCandidate, refinements, settingsOf, wayNames, ways } from '../what-if/candidates.ts'
import { bestOf, leastLost, servesAll, type Tried } from '../what-if/choice.ts'
import { configFiles } from '../what-if/config-files.ts'
import { priceOf, type Situation, scenarioOf, situationOptions } from '../what-if/situation.ts'

export const command = defineCommand({
  examples: [
    [
      'brim simulate what-if trace.csv --gpu rtx-4090 --board orin-nano --devices 50 --out config',
      'agent.yaml and bridge.yaml in config/',
    ],
    ['brim simulate what-if trace.csv --goal cost --server-price 0.15/0.60', 'what costs least at a price'],
    ['brim simulate what-if trace.csv --private', 'only ways in which no server sees a question'],
    ['brim simulate what-if trace.csv --way private --goal latency', 'chunks and drafts for HAT'],
  ],
  notes:
    'First every way of answering is simulated, then the best one with other settings: steps of the\nbridge, chunks of prompts, drafts, budgets. "brim simulate presets" lists models, GPUs and boards.\n' +
    'Small models answer less well than the model of the bridge, which no goal counts: --way leaves them out.',
  options: {
    trace: z.string().min(1).describe('CSV or JSONL file with arrival, prompt tokens and output tokens of each request'),
    goal: z
      .enum(whatIfGoals)
      .default('ttft')
      .describe(
        'figure to improve: ttft and latency, their 95th percentiles; qos, TokenFlow Eq. 2; cost, of the bridge’s tokens; energy, of the devices',
      ),
    way: z
      .array(z.enum(wayNames))
      .default([])
      .meta({ description: 'way of answering that may be chosen; repeatable', fallback: 'all' }),
    private: off.describe('only ways in which questions stay on the device'),
    ...situationOptions,
    out: nonEmpty.optional().meta({ description: 'folder for agent.yaml and bridge.yaml', fallback: 'they are printed' }),
    workers: z.int().min(1).optional().meta({ description: 'threads', fallback: 'one for each core' }),
    data: dataOption,
  },
  async run(options, io) {
    const { goal, out, json } = options
    // Before the work that is to be saved there.
    if (out !== undefined) await writable(out, () => mkdir(out, { recursive: true }))
    const price = priceOf(options)
    const folders = ['', dirname(resolve(options.trace)), options.data ?? defaultDataFolder()]
    const simulate = simulator(options, { folders, workers: options.workers ?? availableParallelism() }, io)
    const allowed = ways.filter(
      ({ isPrivate, way }) => (isPrivate || !options.private) && (options.way.length === 0 || options.way.includes(way)),
    )
    if (allowed.length === 0)
      throw new BrimError('USAGE', `--private leaves none of --way ${options.way.join(', ')}`, {
        hint: 'private and local are private ways',
      })
    const tried = await simulate('ways of answering', allowed)
    // With other settings, the best of them may serve all.
    const way = bestOf(tried, goal, price) ?? leastLost(tried)
    let best = way
    for (const { what, of } of refinements) {
      const refined = await simulate(what, of(best.candidate))
      tried.push(...refined)
      best = bestOf([best, ...refined], goal, price) ?? leastLost([best, ...refined])
    }
    if (!servesAll(best)) throw tooMuch(options, tried)
    const files = configFiles(options, goal, best, way, tried)
    if (json) io.out(JSON.stringify({ best: best.candidate.name, goal, situation: options, files, tried: tried.map(plain) }))
    else for (const line of [...table(tried, best), '', `best for ${goal}: ${best.candidate.name}`]) io.out(line)
    if (out !== undefined) await save(out, files, io)
    else if (!json) for (const [name, text] of Object.entries(files)) io.out(`\n# ${name}.yaml\n${text}`)
  },
})

function simulator(situation: Situation, options: { readonly folders: readonly string[]; readonly workers: number }, io: Io) {
  return async (what: string, candidates: readonly FleetCandidate[]): Promise<Tried[]> => {
    if (candidates.length === 0) return []
    const progress = showProgress(io)
    const results = await runAll(
      candidates.map((candidate) => scenarioOf(situation, candidate)),
      { ...options, signal: io.signal, onProgress: (share) => progress.update(`${what}, ${candidates.length}`, share) },
    )
    progress.end()
    io.signal.throwIfAborted()
    return candidates.map((candidate, i) => ({ candidate, result: results[i]! }))
  }
}

const tooMuch = ({ devices, gpus, gpu }: Situation, tried: readonly Tried[]) =>
  new BrimError('REQUEST_INVALID', `no way of answering serves this trace with ${devices} devices and ${gpus} × ${gpu}`, {
    hint: `more --gpus, --replicas or --devices; of ${tried.length} ways the best loses ${(100 * Math.min(...tried.map(({ result: { all } }) => 1 - all.answered / all.requests))).toFixed(0)} % of the requests`,
  })

const plain = ({ candidate, result: { all, engines } }: Tried) => ({
  name: candidate.name,
  mode: candidate.mode,
  settings: settingsOf(candidate),
  all,
  engines,
})

function table(tried: readonly Tried[], best: Tried): string[] {
  const shown = (value: number) => (Number.isFinite(value) ? String(Number(value.toPrecision(3))) : '–')
  const rows = tried.map((each) => {
    const { all, engines } = each.result
    const perAnswer = (value: number) => shown(value / all.answered)
    const busy = engines.reduce((sum, { busyShare }) => sum + busyShare, 0) / Math.max(1, engines.length)
    return [
      `${each === best ? '→ ' : '  '}${each.candidate.name}`,
      shown(all.ttftMs.mean),
      shown(all.ttftMs.p95),
      shown(all.tbtMs.p95),
      shown(all.latencyMs.p95 / 1_000),
      shown(all.qos),
      perAnswer(1_000 * all.work.dollars),
      perAnswer(all.work.joules),
      `${shown(100 * busy)} %`,
      String(all.requests - all.answered),
    ]
  })
  return layOutTable(
    ['', 'TTFT ms', 'P95', 'TBT P95 ms', 'answer P95 s', 'QoS', '$ per 1,000', 'J per answer', 'GPU busy', 'lost'],
    rows,
  )
}

async function save(folder: string, files: Readonly<Record<string, string>>, io: Io): Promise<void> {
  for (const [name, text] of Object.entries(files)) await writable(folder, () => writeFile(join(folder, `${name}.yaml`), text))
  io.err(`saved to ${folder}`)
}

/** @throws BrimError TARGET_UNWRITABLE */
async function writable(folder: string, write: () => Promise<unknown>): Promise<void> {
  await orThrow(write, 'TARGET_UNWRITABLE', `${folder} cannot be written`, 'name another folder with --out')
}
