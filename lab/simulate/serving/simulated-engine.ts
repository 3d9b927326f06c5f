import type { KvUsage } from '../../../core/policy/admission/kv.ts'
import { StateMonitor } from '../../../core/policy/hat/state-monitor.ts'
import type { ServingPlan, ServingSpeeds, ServingState } from '../../../core/policy/serving/policy.ts'
import type { Reader } from '../../../core/policy/serving/reader.ts'
import { StepSpeeds } from '../../../core/policy/serving/step-speeds.ts'
import type { Simulation } from '../kernel/simulation.ts'
import { draw } from '../scenario/distribution.ts'
import { AnswerRun } from './answer-run.ts'
import type { Engine, EngineAnswer, EngineFigures, EngineSession } from './engine.ts'
import type { EngineOptions } from './engine-options.ts'
import { SessionRun } from './session-run.ts'
import { SimulatedStream } from './simulated-stream.ts'
import { SimulatedTiers } from './simulated-tiers.ts'
import { StageClock } from './stage-clock.ts'
import { StepContent } from './step-content.ts'
import type { OwnerHost } from './stream-host.ts'
import { WaitingStreams } from './waiting-streams.ts'

interface Step {
  readonly streams: readonly SimulatedStream[]
  readonly rows: readonly number[]
  /** Of which streams the next rows may begin once these have left the first stage. */
  readonly enters: readonly boolean[]
  readonly content: StepContent
  readonly seconds: number
}

/** @param name of the engine among those of the simulation: each draws its own chance */
export function createEngine(simulation: Simulation, options: EngineOptions, name = 'engine'): Engine {
  return new SimulatedEngine(simulation, options, name)
}

/**
 * The bridge's step loop on the virtual clock: it carries out the policy's plans with streams that are numbers. What is left
 * out: shares of owners, the wait for a prompt that another answer computes, the memory that cached prefixes hold.
 */
class SimulatedEngine implements Engine, OwnerHost {
  readonly #simulation: Simulation
  readonly #options: EngineOptions
  readonly #tiers: SimulatedTiers
  readonly #streams = new Map<number, SimulatedStream>()
  readonly #waiting = new WaitingStreams()
  readonly #speeds = new StepSpeeds()
  readonly monitor = new StateMonitor()
  readonly #state: ServingState
  #planSpeeds: ServingSpeeds | undefined
  readonly #random
  readonly #stages: StageClock
  readonly #pipelinesPrompts: boolean
  #underWay = 0
  #opened = 0
  #waitingAnswers = 0
  #isPlanning = false
  #alarm = 0
  #alarmAtMs: number | undefined
  #lastDecodeMs: number | undefined
  #steps = 0
  #rows = 0

  constructor(simulation: Simulation, options: EngineOptions, name: string) {
    this.#simulation = simulation
    this.#options = options
    this.#random = simulation.random(`${name}: steps`)
    this.#tiers = new SimulatedTiers(simulation, options, () => this.#planSoon())
    this.#stages = new StageClock(options.pipeline)
    this.#pipelinesPrompts = options.pipelinedPrompts && options.pipeline > 1
    this.#state = this.#visible()
  }

  get memory(): KvUsage {
    return this.#tiers.memory
  }

  get load(): number {
    return this.#streams.size
  }

  get figures(): EngineFigures {
    return { steps: this.#steps, rows: this.#rows, ...this.#stages.figures, ...this.#tiers.counts }
  }

  get nowMs(): number {
    return this.#simulation.nowMs
  }

  after(delayMs: number, action: () => void): void {
    this.#simulation.after(delayMs, action)
  }

  get steps(): number {
    return this.#steps
  }

  get hasSlowTier(): boolean {
    return this.#tiers.slow !== undefined
  }

  answer(answer: EngineAnswer): () => void {
    const { maxWaiting, answerKv } = this.#options
    if (this.#waitingAnswers >= maxWaiting) {
      answer.refused()
      return () => {}
    }
    this.#waitingAnswers += 1
    const { reader, cachedTokens, client = '' } = answer
    const stream = this.#open({ source: 'answer', client, reader, kv: answerKv, cachedRows: cachedTokens })
    stream.owner = new AnswerRun(answer, stream, this)
    return () => this.close(stream)
  }

  session(reader?: Reader, held = 0): EngineSession {
    const stream = this.#open({ source: 'device', client: '', reader, kv: this.#options.deviceKv })
    const session = new SessionRun(stream, this.#tiers, this, { ...this.#options, held })
    stream.owner = session
    return session
  }

  enqueue(stream: SimulatedStream): void {
    this.#waiting.add(stream)
    this.#planSoon()
  }

  close(stream: SimulatedStream): void {
    if (stream.isClosed) return
    stream.isClosed = true
    stream.queueAt = -1
    this.#streams.delete(stream.id)
    this.#leaveQueue(stream)
    if (!stream.isInStep) this.#tiers.release(stream)
    this.#planSoon()
  }

  #open(options: ConstructorParameters<typeof SimulatedStream>[1]): SimulatedStream {
    const stream = new SimulatedStream(this.#opened++, options, this)
    this.#streams.set(stream.id, stream)
    return stream
  }

  /** The answer's first step begins, or it is closed before. */
  #leaveQueue(stream: SimulatedStream): void {
    if (stream.source === 'device' || stream.hasBegun) return
    stream.hasBegun = true
    this.#waitingAnswers -= 1
  }

  /** What the policy sees; made once, because its parts are read when they are needed. */
  #visible(): ServingState {
    const { step } = this.#options
    const tiers = this.#tiers
    const measured = () => this.#measured
    const waiting = () => this.#waiting.all
    const lastDecodeMs = () => this.#lastDecodeMs
    const idle = () => [...this.#streams.values()].filter(({ queueAt }) => queueAt < 0)
    return {
      get waiting() {
        return waiting()
      },
      get idle() {
        return idle()
      },
      cached: [],
      memory: tiers.memory,
      get leavingBytes() {
        return tiers.leavingBytes
      },
      slow: tiers.slow,
      get speeds() {
        return measured()
      },
      step,
      get lastDecodeMs() {
        return lastDecodeMs()
      },
    }
  }

  /** Collected once for each plan, and only if it is read. */
  get #measured(): ServingSpeeds {
    if (this.#planSpeeds) return this.#planSpeeds
    const { evictBytesPerS, loadBytesPerS } = this.#tiers
    const stepSOf = (rows: number) => this.#speeds.secondsOf(rows)
    this.#planSpeeds = { ...this.#speeds.speeds, evictBytesPerS, loadBytesPerS, stepSOf, ...this.#options.speeds }
    return this.#planSpeeds
  }

  get #canBegin(): boolean {
    const { pipeline, waitsForTransfers } = this.#options
    if (waitsForTransfers && this.#tiers.isMoving) return false
    return this.#underWay < pipeline && this.#stages.freeMs <= this.nowMs
  }

  /** In an event of its own, so that everything that happens at this time is seen. */
  #planSoon(): void {
    if (this.#isPlanning || !this.#canBegin) return
    this.#isPlanning = true
    this.#simulation.after(0, this.#beginSteps)
  }

  readonly #beginSteps = (): void => {
    this.#isPlanning = false
    let hasBegun = true
    while (hasBegun && this.#canBegin) {
      this.#waiting.compact()
      this.#planSpeeds = undefined
      hasBegun = this.#carryOut(this.#options.policy.plan(this.#state, this.nowMs))
    }
  }

  /** @returns whether the next plan may differ: a step has begun, or a stream has been preempted beyond the plan */
  #carryOut(plan: ServingPlan): boolean {
    const { preempt, resume, run, lookAgainAtMs } = plan
    if (preempt.length + resume.length > 0) this.#options.onMove?.(plan)
    let madeWay = false
    for (const id of preempt) {
      const stream = this.#streams.get(id)
      if (stream && !stream.isInStep) this.#tiers.evict(stream)
      madeWay ||= stream?.place === 'evicted'
    }
    for (const { stream: id, by } of resume) {
      const stream = this.#streams.get(id)
      if (!stream) continue
      if (!stream.canRecompute || (by === 'load' && stream.contextLength > 0)) this.#tiers.load(stream)
      else this.#tiers.restart(stream)
    }
    this.#setAlarm(lookAgainAtMs)
    if (!this.#canBegin) return false
    const streams: SimulatedStream[] = []
    const rows: number[] = []
    const content = new StepContent()
    for (const { stream: id, rows: planned } of run) {
      const stream = this.#streams.get(id)
      // A stream that was to be resumed is still evicted if another could not be preempted.
      if (!stream?.canRun) continue
      if (!this.#reserve(stream)) {
        madeWay ||= stream.place !== 'resident'
        continue
      }
      // A stream may have found some of its rows in the prefix cache.
      const count = Math.min(planned, stream.waitingRows)
      content.add(stream, count)
      streams.push(stream)
      rows.push(count)
    }
    if (streams.length === 0) return madeWay
    this.#begin(streams, rows, content)
    return true
  }

  /** Charges what the waiting rows need. An answer without memory for them is preempted. @returns whether the rows can run */
  #reserve(stream: SimulatedStream): boolean {
    if (this.#tiers.charge(stream, stream.neededBytes)) return true
    // Rows of devices keep their memory, and so do others where an eviction is about to free some: they wait.
    if (stream.source === 'answer' && this.#tiers.leavingBytes === 0) this.#tiers.evict(stream)
    return false
  }

  #begin(streams: readonly SimulatedStream[], rows: readonly number[], content: StepContent): void {
    const { pipeline, stepS, stepJitter } = this.#options
    const { nowMs } = this
    this.#underWay += 1
    this.#steps += 1
    for (const stream of streams) {
      stream.isBlocked = true
      stream.stepsUnderWay += 1
      stream.stepsTaken += 1
      this.#leaveQueue(stream)
    }
    if (content.decodes) this.#lastDecodeMs = nowMs
    const jitter = stepJitter > 0 ? draw({ kind: 'lognormal', median: 1, sigma: stepJitter }, this.#random) : 1
    const seconds = jitter * stepS(content)
    const endsMs = this.#stages.begin(seconds, nowMs)
    this.#rows += content.rows
    this.#tiers.saveDuring(this.#speeds.secondsOf(content.rows) ?? 0)
    const enters = streams.map(({ phase }) => this.#pipelinesPrompts && phase === 'prefill')
    const step = { streams, rows, enters, content, seconds: (endsMs - nowMs) / 1_000 }
    this.#simulation.at(endsMs, () => this.#end(step))
    if (pipeline > 1) this.#simulation.at(this.#stages.freeMs, () => this.#enter(step))
  }

  /** The step has left the first stage: the next rows of its prompts may follow. */
  #enter({ streams, rows, enters }: Step): void {
    streams.forEach((stream, at) => {
      if (!enters[at]) return
      stream.isBlocked = false
      stream.compute(rows[at]!)
      if (!stream.isClosed && stream.waitingRows === 0) stream.owner.entered()
    })
    this.#planSoon()
  }

  #end({ streams, rows, enters, content, seconds }: Step): void {
    this.#underWay -= 1
    this.monitor.record(content.rows, seconds)
    this.#speeds.record({ streams: streams.length, rows: content.rows, promptRows: content.promptRows, seconds })
    for (let at = 0; at < streams.length; at += 1) {
      const stream = streams[at]!
      stream.stepsUnderWay -= 1
      if (!enters[at]) {
        stream.isBlocked = false
        stream.compute(rows[at]!)
      }
      if (!stream.isClosed) this.#tiers.grown(stream)
      else if (!stream.isInStep) this.#tiers.release(stream)
    }
    // What follows a token may close streams of this step.
    streams.forEach((stream, at) => {
      if (!stream.isClosed) stream.owner.computed(rows[at]!)
    })
    this.#planSoon()
  }

  #setAlarm(atMs: number | undefined): void {
    if (atMs === this.#alarmAtMs) return
    if (this.#alarmAtMs !== undefined) this.#simulation.cancel(this.#alarm)
    this.#alarmAtMs = atMs
    if (atMs === undefined) return
    this.#alarm = this.#simulation.at(atMs, () => {
      this.#alarmAtMs = undefined
      this.#planSoon()
    })
  }
}
