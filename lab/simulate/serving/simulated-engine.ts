import type { KvUsage } from '../../../core/policy/admission/kv.ts'
import type { StateMonitor } from '../../../core/policy/estimate/state-monitor.ts'
import type { Reader } from '../../../core/policy/serving/reader.ts'
import type { ServedStream } from '../../../core/policy/serving/served-stream.ts'
import type { ServingAction, ServingInput, StepPiece } from '../../../core/policy/serving/serving-events.ts'
import { ServingMachine } from '../../../core/policy/serving/serving-machine.ts'
import { Alarm } from '../kernel/alarm.ts'
import type { Simulation } from '../kernel/simulation.ts'
import { draw } from '../scenario/distribution.ts'
import type { EngineAnswer, EngineFigures, SimulatedEngineSession } from './engine.ts'
import type { EngineOptions } from './engine-options.ts'
import { type SessionHost, SessionRun } from './session-run.ts'
import { SlowTierLink } from './slow-tier-link.ts'
import { StageClock } from './stage-clock.ts'
import { StepContent } from './step-content.ts'

/** Pages of a transfer that are one event. */
const piecePages = 8
const tick: ServingInput = { kind: 'tick' }
const none: readonly never[] = []

/**
 * The bridge's serving machine on the virtual clock, with KV in two tiers: what its steps and transfers cost. What is left out: shares of owners, the
 * wait for a prompt that another answer computes, the memory that cached prefixes hold.
 */
export class SimulatedEngine implements SessionHost {
  readonly #simulation: Simulation
  readonly #options: EngineOptions
  readonly #machine: ServingMachine
  readonly #link: SlowTierLink
  readonly #stages: StageClock
  readonly #random
  /** Those that are open. */
  readonly #answers = new Map<number, EngineAnswer>()
  readonly #sessions = new Map<number, SessionRun>()
  #opened = 0
  #isPlanning = false
  readonly #alarm: Alarm
  #rows = 0
  /** Pages that the present step lets be written, and when the last of them is there. */
  #written: { readonly id: number; readonly bytes: number }[] = []
  #writtenMs = 0

  /** @param name of the engine among those of the simulation: each draws its own chance */
  constructor(simulation: Simulation, options: EngineOptions, name = 'engine') {
    const { policy, step, pipeline, memoryBytes, slowBytes, writeThrough, overlap, waitsForTransfers, speeds } = options
    this.#simulation = simulation
    this.#alarm = new Alarm(simulation, () => this.feed(tick))
    this.#options = options
    this.#random = simulation.random(`${name}: steps`)
    this.#machine = new ServingMachine({
      policy,
      step: { ...step, pipeline },
      memory: { budgetBytes: memoryBytes, ownerBytes: memoryBytes },
      tiers: { slowBytes, writeThrough, overlap, piecePages },
      contextLimit: Number.POSITIVE_INFINITY,
      sizes: { device: options.deviceKv, answer: options.answerKv },
      sharesPrefixes: false,
      maxMemoryWaitMs: options.maxMemoryWaitMs ?? Number.POSITIVE_INFINITY,
      maxWaitingAnswers: options.maxWaiting,
      whatIf: {
        waitsForTransfers,
        waitsForMemory: options.maxMemoryWaitMs === undefined,
        pipelinedPrompts: options.pipelinedPrompts && pipeline > 1,
        speeds,
      },
    })
    this.#link = new SlowTierLink(simulation, options)
    this.#stages = new StageClock(pipeline)
  }

  get memory(): KvUsage {
    return this.#machine.memory
  }

  /** Its load and the delay of its steps, as chunk sizes follow from them. */
  get monitor(): StateMonitor {
    return this.#machine.monitor
  }

  /** Answers and sessions that are open. */
  get load(): number {
    return this.#answers.size + this.#sessions.size
  }

  get figures(): EngineFigures {
    const { stepsBegun: steps, transfers } = this.#machine
    return { steps, rows: this.#rows, ...this.#stages.figures, ...transfers }
  }

  get nowMs(): number {
    return this.#simulation.nowMs
  }

  /** @returns stops it; nothing more is called */
  answer(answer: EngineAnswer): () => void {
    const id = this.#opened++
    const { promptTokens: rows, outputTokens, tokensPerS, client = '' } = answer
    this.#answers.set(id, answer)
    // The last token of an answer becomes no row.
    const following = outputTokens - 1
    this.feed({ kind: 'answer opened', stream: id, owner: client, client, tokensPerS, rows, following })
    return () => this.close(id)
  }

  /** @param held rows of a cached prefix; the session begins without them where the memory cannot hold them */
  session(reader?: Reader, held = 0): SimulatedEngineSession {
    const id = this.#opened++
    const run = new SessionRun(id, held, this, this.#options)
    this.#sessions.set(id, run)
    run.open(reader)
    return run
  }

  stream(id: number): Readonly<ServedStream> {
    const stream = this.#machine.get(id)
    if (!stream) throw new Error(`stream ${id} is not open`)
    return stream
  }

  close(id: number): void {
    if (this.#answers.delete(id) || this.#sessions.delete(id)) this.feed({ kind: 'closing', stream: id })
  }

  feed(input: ServingInput): void {
    this.#handle(input)
    this.#arrange()
  }

  #handle(input: ServingInput): void {
    for (const action of this.#machine.handle(input, this.nowMs)) this.#do(action)
    if (this.#written.length > 0) this.#writeThrough()
  }

  #do(action: ServingAction): void {
    switch (action.kind) {
      case 'begin':
        this.#begin(action.step, action.pieces)
        break
      case 'save':
        this.#save(action)
        break
      case 'load':
        this.#load(action)
        break
      case 'restart':
        this.#restart(action.stream)
        break
      case 'drop copy':
        this.#link.drop(action.stream)
        this.feed({ kind: 'copy dropped' })
        break
      case 'closed':
        this.feed({ kind: 'released', stream: action.stream })
        break
      case 'admitted':
        this.#sessions.get(action.stream)?.admitted()
        break
      case 'displaced':
      case 'fail':
        this.#fail(action.stream)
        break
      case 'refused': {
        const answer = this.#answers.get(action.stream)
        this.#answers.delete(action.stream)
        answer?.refused()
        break
      }
    }
  }

  /** When the machine wants to know that nothing else has happened. */
  #arrange(): void {
    const { wakeMs } = this.#machine
    if (wakeMs !== Number.NEGATIVE_INFINITY) this.#alarm.set(wakeMs)
    else if (!this.#isPlanning) {
      this.#isPlanning = true
      // In an event of its own, so that everything that happens at this time is seen.
      this.#simulation.after(0, this.#plan)
    }
  }

  readonly #plan = (): void => {
    do {
      this.#handle(tick)
    } while (this.#machine.wakeMs === Number.NEGATIVE_INFINITY)
    this.#isPlanning = false
    this.#arrange()
  }

  #fail(id: number): void {
    const [answer, session] = [this.#answers.get(id), this.#sessions.get(id)]
    this.close(id)
    answer?.refused()
    session?.failed()
  }

  #restart(id: number): void {
    const { waitingRows } = this.stream(id)
    const rows = Math.min(this.#answers.get(id)?.cachedTokens ?? 0, waitingRows - 1)
    this.feed({ kind: 'found', stream: id, rows })
  }

  #save({ stream: id, from, to, isDuringStep }: Extract<ServingAction, { kind: 'save' }>): void {
    const { bytesPerPosition } = this.stream(id).size
    const bytes = (to - from) * bytesPerPosition
    const endsMs = this.#link.save(id, bytes, to * bytesPerPosition)
    if (endsMs === undefined) this.feed({ kind: 'saved', stream: id, outcome: 'full', seconds: 0 })
    else if (!isDuringStep) this.#simulation.at(endsMs, () => this.#saved(id, bytes))
    else {
      this.#written.push({ id, bytes })
      this.#writtenMs = endsMs
    }
  }

  /** What is written through during one step is one event. */
  #writeThrough(): void {
    const written = this.#written
    this.#written = []
    this.#simulation.at(this.#writtenMs, () => {
      for (const { id, bytes } of written) this.#saved(id, bytes)
    })
  }

  #saved(stream: number, bytes: number): void {
    this.feed({ kind: 'saved', stream, outcome: 'saved', seconds: this.#link.secondsOf(bytes) })
  }

  #load({ stream: id }: Extract<ServingAction, { kind: 'load' }>): void {
    const { arriving } = this.stream(id)
    const bytes = arriving?.moving?.bytes ?? 0
    const seconds = this.#link.secondsOf(bytes)
    this.#simulation.at(this.#link.load(bytes), () => this.feed({ kind: 'loaded', stream: id, outcome: 'loaded', seconds }))
  }

  #begin(id: number, pieces: readonly StepPiece[]): void {
    const { pipeline, stepS, stepJitter } = this.#options
    const { nowMs } = this
    const content = new StepContent()
    for (const piece of pieces) content.add(piece, this.stream(piece.stream).source)
    const jitter = stepJitter > 0 ? draw({ kind: 'lognormal', median: 1, sigma: stepJitter }, this.#random) : 1
    const endsMs = this.#stages.begin(jitter * stepS(content), nowMs)
    this.#rows += content.rows
    const { rows, promptRows } = content
    const run = { streams: pieces.length, rows, promptRows, seconds: (endsMs - nowMs) / 1_000 }
    this.#simulation.at(endsMs, () => {
      this.feed({ kind: 'step ended', step: id, runs: [run], failed: none, trees: none })
      // What follows a token may close streams of this step.
      for (const { stream, rows: computed } of pieces)
        if (this.#answers.has(stream)) this.#token(stream)
        else this.#sessions.get(stream)?.computed(computed)
    })
    if (pipeline > 1) this.#simulation.at(this.#stages.freeMs, () => this.#enter(id, pieces))
  }

  /** A step with rows of an answer has ended. */
  #token(id: number): void {
    const { waitingRows, isInStep, followingRows } = this.stream(id)
    if (waitingRows > 0 || isInStep) return
    const answer = this.#answers.get(id)
    // The memory is free before the reader gets the last token.
    if (followingRows === 0) this.close(id)
    else this.feed({ kind: 'rows', stream: id, rows: 1, phase: 'decode', following: followingRows - 1 })
    answer?.token()
  }

  /** The step has left the first stage: the next rows of its prompts may follow. */
  #enter(id: number, pieces: readonly StepPiece[]): void {
    this.feed({ kind: 'step entered', step: id })
    if (!this.#options.pipelinedPrompts) return
    for (const { stream, phase } of pieces)
      if (phase === 'prefill' && this.#machine.get(stream)?.waitingRows === 0) this.#sessions.get(stream)?.entered()
  }
}
