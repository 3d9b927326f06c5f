import type { OfKind } from '../machine.ts'
import type { KvTiers } from './kv-tiers.ts'
import type { ServedStream } from './served-stream.ts'
import type { ServedStreams } from './served-streams.ts'
import type { ServingInput, StepPiece } from './serving-events.ts'
import { StepSpeeds } from './step-speeds.ts'

interface StepUnderWay {
  readonly pieces: readonly StepPiece[]
  /** Whether its rows have left the first stage. */
  hasEntered: boolean
}

/** The steps of a serving machine that are under way, and what those that have ended tell. Mutable. */
export class ServingSteps {
  readonly speeds = new StepSpeeds()
  readonly #streams: ServedStreams
  readonly #tiers: KvTiers
  /** Whether a prompt's next piece begins once the one before has left the first stage. */
  readonly #pipelinesPrompts: boolean
  readonly #underWay = new Map<number, StepUnderWay>()
  /** When a step that decoded or verified last began. */
  lastDecodeMs: number | undefined

  constructor(streams: ServedStreams, tiers: KvTiers, pipelinesPrompts: boolean) {
    this.#streams = streams
    this.#tiers = tiers
    this.#pipelinesPrompts = pipelinesPrompts
  }

  get underWay(): number {
    return this.#underWay.size
  }

  get isFirstStageFree(): boolean {
    for (const { hasEntered } of this.#underWay.values()) if (!hasEntered) return false
    return true
  }

  begin(pieces: readonly StepPiece[]): void {
    const streams = this.#streams
    streams.stepsBegun += 1
    for (const { stream: id, phase } of pieces) {
      const stream = streams.demand(id)
      streams.leaveQueue(stream)
      stream.enterStep()
      if (phase !== 'prefill') this.lastDecodeMs = streams.nowMs
    }
    this.#underWay.set(streams.stepsBegun, { pieces, hasEntered: false })
    streams.actions.push({ kind: 'begin', step: streams.stepsBegun, pieces })
    this.#tiers.pages.saveDuring(this.speeds.secondsFor(pieces) ?? 0)
  }

  /** Its rows have left the first stage. */
  enter(id: number): void {
    const step = this.#underWay.get(id)
    if (!step) return
    step.hasEntered = true
    this.#streams.isDue = true
    if (!this.#pipelinesPrompts) return
    // The next rows of its prompts may follow.
    for (const { stream, rows, phase } of step.pieces) if (phase === 'prefill') this.#computed(this.#streams.demand(stream), rows)
  }

  end({ step: id, runs, failed, trees }: OfKind<ServingInput, 'step ended'>): void {
    const streams = this.#streams
    const step = this.#underWay.get(id)
    if (!step) throw new Error(`step ${id} is not under way`)
    this.#underWay.delete(id)
    const haveEntered = step.hasEntered && this.#pipelinesPrompts
    // Pieces that are computed alone, after a failure, are not told apart.
    const whole = runs.length === 1 && failed.length === 0 ? step.pieces : undefined
    for (const run of runs) this.speeds.record(run, whole)
    for (const { stream: one, rows, phase } of step.pieces) {
      const stream = streams.demand(one)
      stream.stepsUnderWay -= 1
      if (failed.includes(one)) {
        stream.unblock()
        streams.waitNoMore(stream)
      } else if (!haveEntered || phase !== 'prefill') this.#computed(stream, rows)
    }
    for (const { stream, line } of trees) streams.demand(stream).line = line
    for (const { stream: one } of step.pieces) {
      const stream = streams.demand(one)
      if (!stream.isClosing) this.#tiers.pages.grown(stream)
      else if (!stream.isInStep) {
        streams.waitNoMore(stream)
        this.#tiers.settle(stream)
      }
    }
    streams.isDue = true
    // The rest of what the last steps computed in part.
    if (streams.isStopped) streams.rejectWaiting()
  }

  #computed(stream: ServedStream, rows: number): void {
    stream.unblock()
    stream.compute(rows)
    if (stream.waitingRows === 0) this.#streams.waits.end(stream)
  }
}
