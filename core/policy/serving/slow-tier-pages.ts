import { Ewma } from '../estimate/ewma.ts'
import type { ServedStream } from './served-stream.ts'
import type { ServedStreams } from './served-streams.ts'
import { pageRows, pagesToSave } from './write-through.ts'

/**
 * The pages of streams that the slow tier has, or is about to have: saved while the streams run, or when they are evicted. Of each
 * stream at most one piece is on its way. Mutable.
 */
export class SlowTierPages {
  readonly #streams: ServedStreams
  /** Rows are saved while their streams run. */
  readonly #writesThrough: boolean
  readonly #saved = new Set<ServedStream>()
  /** Streams that may have complete pages to save. */
  readonly #due = new Set<ServedStream>()
  /** Streams whose pages are being written through. */
  readonly #written = new Set<ServedStream>()
  /** Measured. */
  readonly bytesPerS = new Ewma()
  /** Since the start. */
  readonly counts = { preemptions: 0, savedBytes: 0, loadedBytes: 0 }

  constructor(streams: ServedStreams, writeThrough: boolean) {
    this.#streams = streams
    this.#writesThrough = writeThrough && streams.hasSlowTier
  }

  /** The stream has more rows. */
  grown(stream: ServedStream): void {
    if (this.#writesThrough && stream.duePages > 0) this.#due.add(stream)
  }

  /** Saves as many complete pages as fit into the time of a step that has begun, those of the largest buffers first. */
  saveDuring(seconds: number): void {
    if (this.#due.size === 0 || this.#written.size > 0) return
    for (const stream of this.#due) if (stream.duePages === 0 || stream.isClosing) this.#due.delete(stream)
    const pages = pagesToSave([...this.#due], seconds * (this.bytesPerS.value ?? 0))
    for (let at = 0; at < pages.length; ) {
      const stream = pages[at]!
      let to = stream.pageStart
      for (; pages[at] === stream; at += 1) to += pageRows
      this.#written.add(stream)
      this.save(stream, to, true)
    }
  }

  /** Begins to save the complete pages that a closing stream is to leave, once. @returns whether there are any */
  saveRest(stream: ServedStream): boolean {
    const { duePages, pageStart } = stream
    if (!this.#writesThrough || !stream.leavesPages || duePages === 0) return false
    stream.leavesPages = false
    this.save(stream, pageStart + duePages * pageRows, false)
    return true
  }

  /** The slow tier has the stream's first rows already. */
  adopt(stream: ServedStream, rows: number): void {
    stream.writtenRows = rows
    this.#saved.add(stream)
  }

  /** From the first page that is not complete there. */
  save(stream: ServedStream, to: number, isDuringStep: boolean): void {
    const from = stream.pageStart
    const bytes = (to - from) * stream.size.bytesPerPosition
    stream.saving = { from, to, bytes }
    stream.writtenRows = to
    this.#saved.add(stream)
    this.counts.savedBytes += bytes
    this.#streams.actions.push({ kind: 'save', stream: stream.id, from, to, isDuringStep })
  }

  onSaved(stream: ServedStream, isSaved: boolean, seconds: number): void {
    const { saving } = stream
    if (!saving) throw new Error('rows were saved that no stream saves')
    stream.saving = undefined
    if (seconds > 0) this.bytesPerS.record(saving.bytes / seconds)
    if (!isSaved) {
      stream.writtenRows = Math.min(stream.writtenRows, saving.from)
      this.grown(stream)
    }
    this.#written.delete(stream)
  }

  /**
   * Frees the pages of the resident stream that is least likely to be preempted, because its reader's buffer is the smallest.
   * @returns whether there is one
   */
  makeRoom(): boolean {
    let victim: ServedStream | undefined
    for (const one of this.#saved) if (one.place === 'resident' && (!victim || one.drainedMs < victim.drainedMs)) victim = one
    if (victim) this.drop(victim)
    return victim !== undefined
  }

  drop(stream: ServedStream): void {
    stream.writtenRows = 0
    this.grown(stream)
    if (this.#saved.delete(stream)) this.#streams.actions.push({ kind: 'drop copy', stream: stream.id })
  }

  /** The stream takes part in nothing any more. */
  close(stream: ServedStream): void {
    this.drop(stream)
    this.#due.delete(stream)
  }
}
