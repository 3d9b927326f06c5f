import { termsOf } from './dispatch-rules.ts'
import type { ExpandingFleet } from './expanding-fleet.ts'
import type { FleetDevice } from './fleet-device.ts'
import { usualModel, usualS } from './fleet-queue.ts'
import { type PendingSketch, SketchJob, type SketchJobOptions } from './pending-sketch.ts'
import type { SketchBatch } from './sketch-batches.ts'

/** A job is overdue after this many times its predicted time, or this part of its budget where no time is predicted. */
const hedgePatience = 2
/** Shorter predictions are below what networks and schedulers vary by. */
const minHedgeMs = 500

/** The jobs that expand sketches, those of an earlier start of the bridge included. Mutable. */
export class SketchJobs {
  readonly #fleet: ExpandingFleet
  readonly #jobs = new Map<string, SketchJob>()
  #submitted = 0

  constructor(fleet: ExpandingFleet) {
    this.#fleet = fleet
  }

  get(id: string): SketchJob | undefined {
    return this.#jobs.get(id)
  }

  all(): Iterable<SketchJob> {
    return this.#jobs.values()
  }

  /** When one of them is overdue, or kept no longer; Infinity: never. */
  nextEndMs(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY
    for (const { options } of this.#jobs.values())
      for (const atMs of [options.keptUntilMs, options.overdueMs]) if (atMs > nowMs) nextMs = Math.min(nextMs, atMs)
    return nextMs
  }

  begin({ device, sketches }: SketchBatch, nowMs: number): SketchJob {
    this.#submitted += 1
    const seconds = predictedS(device, sketches)
    const busyS = device.busyS(nowMs)
    const job = this.#add({
      id: `${this.#submitted}`,
      device,
      size: sketches.length,
      expected: sketches.reduce((sum, { missing, asked }) => sum + missing.length * asked.candidates, 0),
      predictedS: seconds,
      model: device.known && usualModel(device.known).model,
      busyS,
      startedMs: nowMs,
      overdueMs: nowMs + hedgeMs(seconds > 0 ? busyS + seconds : 0, sketches),
      keptUntilMs: nowMs,
    })
    for (const [sketch, pending] of sketches.entries()) job.attach(pending, sketch)
    return job
  }

  /** Of an earlier start of the bridge: when it was submitted is not known. */
  adopt(
    options: Pick<SketchJobOptions, 'id' | 'device' | 'size' | 'expected' | 'keptUntilMs'>,
    isDispatched: boolean,
    nowMs: number,
  ): SketchJob {
    const job = this.#add({ ...options, predictedS: 0, busyS: 0, startedMs: nowMs, overdueMs: Number.POSITIVE_INFINITY })
    job.isDispatched = isDispatched
    job.isAccepted = true
    return job
  }

  /** What its device still sends no longer counts. */
  remove(job: SketchJob): void {
    this.#jobs.delete(job.options.id)
    this.#fleet.removeJob(job.options.device, job)
    for (const part of job.waitingParts) part.jobs.delete(job)
  }

  #add(options: SketchJobOptions): SketchJob {
    const job = new SketchJob(options)
    this.#jobs.set(options.id, job)
    this.#fleet.addJob(options.device, job)
    return job
  }
}

/** After how many ms another device is given what is missing of a job. */
function hedgeMs(predicted: number, batch: readonly PendingSketch[]): number {
  if (predicted > 0) return Math.max(minHedgeMs, 1_000 * hedgePatience * predicted)
  const budgets = batch.flatMap(({ asked: { budgetMs } }) => budgetMs ?? [])
  return budgets.length > 0 ? Math.max(minHedgeMs, Math.min(...budgets) / hedgePatience) : Number.POSITIVE_INFINITY
}

/** 0 for a device whose speed is unknown. */
function predictedS({ known }: FleetDevice, batch: readonly PendingSketch[]): number {
  const tokens = batch.reduce((sum, { expectedTokens }) => sum + expectedTokens, 0)
  if (!known) return 0
  const terms = termsOf(batch.map(({ shape }) => shape))
  // The prompts of a batch are read one after another.
  return known.networkS + usualS(known, tokens, { ...terms, promptTokens: batch.length * terms.promptTokens })
}
