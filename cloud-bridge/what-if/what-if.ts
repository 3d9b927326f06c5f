import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError, toErrorJson } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { WhatIfEvent, WhatIfFact, WhatIfRequest, WhatIfSettings } from '../../core/wire/protocol/http/what-if.ts'
import { type FleetSituation, machineOf } from './fleet-situation.ts'
import { type SimulatorOptions, simulate } from './simulator-process.ts'

const figure = z.number().nullable()
const quantiles = z.object({ mean: figure, p95: figure })
/** What `brim simulate what-if --json` prints, as far as it is shown. Figures of nothing are null. */
const Output = z.object({
  best: z.string(),
  situation: z.record(z.string(), z.unknown()),
  files: z.object({ agent: z.string(), bridge: z.string() }),
  tried: z.array(
    z.object({
      name: z.string(),
      all: z.object({
        requests: z.number(),
        answered: z.number(),
        ttftMs: quantiles,
        tbtMs: quantiles,
        latencyMs: quantiles,
        qos: figure,
        work: z.object({ dollars: z.number(), joules: z.number() }),
      }),
    }),
  ),
})

/** Facts of the hardware and the requests, in the order in which they are shown; others of the command are its own affair. */
const shownOptions = [
  ...['model', 'gpu', 'gpus', 'replicas', 'smallModel', 'board', 'devices', 'up', 'down', 'rtt', 'battery'],
  ...['readingSpeed', 'acceptLength', 'serverPrice'],
]

/** Simulations of other ways of answering, one at a time. */
export class WhatIf {
  readonly #logger: Logger
  readonly #closed = new AbortController()
  #running: Promise<void> | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /**
   * Begins a simulation.
   * @param signal aborted: it ends, and nothing more is sent
   * @param send gets events, the last of which is a result or an error
   * @throws BrimError QUOTA_EXCEEDED: one is running; REQUEST_INVALID: too few requests were recorded
   */
  start(situation: FleetSituation, request: WhatIfRequest, signal: AbortSignal, send: (event: WhatIfEvent) => void): void {
    const { requests, minRequests } = situation
    if (this.#running) throw running
    if (requests < minRequests) throw tooFew(requests, minRequests)
    const ended = AbortSignal.any([signal, this.#closed.signal])
    this.#running = this.#run(situation, request, ended, send).finally(() => {
      this.#running = undefined
    })
  }

  async close(): Promise<void> {
    this.#closed.abort()
    await this.#running
  }

  async #run(situation: FleetSituation, request: WhatIfRequest, signal: AbortSignal, send: (event: WhatIfEvent) => void) {
    try {
      const cwd = await mkdtemp(join(tmpdir(), 'brim-what-if-'))
      try {
        const run = { cwd, signal, onProgress: (progress: WhatIfEvent['progress']) => send({ progress }) }
        send({ result: await resultOf(situation, request, run) })
      } finally {
        await rm(cwd, { recursive: true, force: true })
      }
    } catch (error) {
      if (signal.aborted) return
      this.#logger.warn({ err: error }, 'simulation failed')
      send(toErrorJson(error))
    }
  }
}

/** @throws BrimError as the simulator; the signal's reason */
async function resultOf(
  { facts: known, files }: FleetSituation,
  { goal, private: isPrivate, settings }: WhatIfRequest,
  run: SimulatorOptions,
): Promise<NonNullable<WhatIfEvent['result']>> {
  const facts = factsWith(known, settings)
  await writeFile(join(run.cwd, 'requests.csv'), files.requests)
  await fitMachine('bridge', files.bridge, { machine: facts.get('gpu'), model: facts.get('model') }, run)
  await fitMachine('device', files.device, { machine: facts.get('board'), model: facts.get('smallModel') }, run)
  const words = [...facts.values()].map(({ option, value }) => `--${kebab(option)}=${value}`)
  // One thread: the bridge shares this machine.
  const own = [`--goal=${goal}`, '--workers=1', ...(isPrivate ? ['--private'] : [])]
  const output = Output.parse(JSON.parse(await simulate(['what-if', 'requests.csv', ...words, ...own], run)))
  const isPowerKnown = facts.get('board')?.value !== machineOf('device')
  const isPriced = facts.has('serverPrice')
  const ways = output.tried.map(({ name, all: { requests, answered, ttftMs, tbtMs, latencyMs, qos, work } }) => ({
    ...{ name, requests, answered, ttftMs, qos },
    tbtP95Ms: tbtMs.p95,
    latencyP95Ms: latencyMs.p95,
    dollars: isPriced && answered > 0 ? work.dollars / answered : null,
    joules: isPowerKnown && answered > 0 ? work.joules / answered : null,
  }))
  return { best: output.best, ways, facts: shownFacts(facts, output.situation), files: output.files }
}

type Facts = ReadonlyMap<string, WhatIfFact>

/** By option: what the operator has chosen, before what is known. */
function factsWith(known: readonly WhatIfFact[], settings: WhatIfSettings): Facts {
  const chosen = Object.entries(settings).flatMap(([option, value]): WhatIfFact[] =>
    value === undefined ? [] : [{ option, value, basis: 'chosen', note: 'chosen for this simulation' }],
  )
  return new Map([...known, ...chosen].map((fact) => [fact.option, fact]))
}

/** Nothing where a preset was chosen. @param steps CSV of what was measured */
async function fitMachine(
  name: 'bridge' | 'device',
  steps: string | undefined,
  { machine, model }: { readonly machine: WhatIfFact | undefined; readonly model: WhatIfFact | undefined },
  run: SimulatorOptions,
): Promise<void> {
  if (steps === undefined || machine?.value !== machineOf(name)) return
  run.onProgress({ what: `fitting the ${name}`, percent: 0 })
  await writeFile(join(run.cwd, `${name}.csv`), steps)
  await simulate(['calibrate', `${name}.csv`, `--model=${model?.value}`, `--name=${name}`, `--out=${machineOf(name)}`], run)
}

/** Those that went in, and the defaults of the command for the others. */
const shownFacts = (facts: Facts, situation: Readonly<Record<string, unknown>>): WhatIfFact[] =>
  shownOptions.flatMap((option): WhatIfFact[] => {
    const fact = facts.get(option)
    if (fact) return [fact]
    const value = situation[option]
    const note = 'not known here: the default of the simulator'
    return typeof value === 'string' || typeof value === 'number' ? [{ option, value, basis: 'assumed', note }] : []
  })

const kebab = (option: string) => option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

const running = new BrimError('QUOTA_EXCEEDED', 'this bridge is running a simulation, and runs one at a time', {
  hint: 'wait until it has ended',
  retryAfterMs: 10_000,
})

const tooFew = (requests: number, needed: number) =>
  new BrimError(
    'REQUEST_INVALID',
    `${requests} requests were recorded since the start of the bridge; a simulation needs ${needed}`,
    {
      hint: 'let clients and devices ask, or run "brim simulate what-if" with a trace of your own',
    },
  )
