import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BrimError, toErrorJson } from '../../core/kit/base/errors.ts'
import { type WhatIfEvent, type WhatIfFact, WhatIfOutcome, type WhatIfRequest } from '../../core/wire/protocol/http/what-if.ts'
import { type FleetSituation, machineOf } from './fleet-situation.ts'
import { type SimulatorOptions, simulate } from './simulator-process.ts'

/** Simulations of other ways of answering, one at a time. */
export class WhatIf {
  readonly #closed = new AbortController()
  #running: Promise<void> | undefined

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
    this.#running = inFolder((cwd) =>
      resultOf(situation, request, { cwd, signal: ended, onProgress: (progress) => send({ progress }) }),
    )
      .then((result) => ({ result }), toErrorJson)
      .then((event) => {
        this.#running = undefined
        if (!ended.aborted) send(event)
      })
  }

  async close(): Promise<void> {
    this.#closed.abort()
    await this.#running
  }
}

async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'brim-what-if-'))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** @throws BrimError as the simulator */
async function resultOf(
  { facts: known, trace, steps }: FleetSituation,
  { goal, private: isPrivate, settings }: WhatIfRequest,
  run: SimulatorOptions,
): Promise<NonNullable<WhatIfEvent['result']>> {
  const chosen: Readonly<Record<string, string | undefined>> = settings
  const facts = known.map((fact): WhatIfFact => {
    const value = chosen[fact.option]
    return value === undefined ? fact : { ...fact, value, basis: 'chosen', note: '' }
  })
  const valueFor = (option: string) => facts.find((fact) => fact.option === option)?.value
  const fitMachine = async (name: 'bridge' | 'device', machine: string, model: string) => {
    const text = steps[name]
    if (text === undefined || valueFor(machine) !== machineOf(name)) return
    run.onProgress({ what: `fitting the ${name}`, percent: 0 })
    await writeFile(join(run.cwd, `${name}.csv`), text)
    await simulate(['calibrate', `${name}.csv`, `--model=${valueFor(model)}`, `--name=${name}`, `--out=${machineOf(name)}`], run)
  }
  await fitMachine('bridge', 'gpu', 'model')
  await fitMachine('device', 'board', 'small-model')
  await writeFile(join(run.cwd, 'requests.csv'), trace)
  const words = facts.flatMap(({ option, value }) => (value === null ? [] : [`--${option}=${value}`]))
  // One thread: the bridge shares this machine.
  const own = [`--goal=${goal}`, '--workers=1', ...(isPrivate ? ['--private'] : [])]
  const printed = JSON.parse(await simulate(['what-if', 'requests.csv', ...words, ...own], run))
  const used = printed.situation as Readonly<Record<string, unknown>>
  const usedValue = (option: string) => used[option.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())]
  return {
    ...WhatIfOutcome.parse(printed),
    facts: facts.map((fact) => ({ ...fact, value: fact.value ?? String(usedValue(fact.option) ?? 'none') })),
  }
}

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
