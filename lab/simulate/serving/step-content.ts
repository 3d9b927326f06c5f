import type { StepPiece } from '../../../core/policy/serving/serving-events.ts'
import type { StepWork } from '../hardware/roofline.ts'

/** What one step computes, of the pieces that are added to it. Mutable. */
export class StepContent {
  /** Of answers, through the whole model. */
  readonly answers = { streams: 0, rows: 0, kvPositions: 0, attended: 0 } satisfies StepWork
  /** Of devices, through the model's middle. */
  readonly devices = { streams: 0, rows: 0, kvPositions: 0, attended: 0 } satisfies StepWork
  /** Tokens of answers that are chosen: rows of the head. */
  chosen = 0
  promptRows = 0

  get rows(): number {
    return this.answers.rows + this.devices.rows
  }

  add({ contextLength, waitingRows, phase, rows }: StepPiece, source: 'answer' | 'device'): void {
    const work = source === 'answer' ? this.answers : this.devices
    work.streams += 1
    work.rows += rows
    work.kvPositions += contextLength + rows
    work.attended += rows * contextLength + (rows * (rows + 1)) / 2
    if (source === 'answer' && rows === waitingRows) this.chosen += 1
    if (phase === 'prefill') this.promptRows += rows
  }
}
