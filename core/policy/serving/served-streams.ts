import { type OfKind, PendingActions } from '../machine.ts'
import { AnswerQueue } from './answer-queue.ts'
import { KvMemory } from './kv-memory.ts'
import { MemoryWaits } from './memory-waits.ts'
import type { StreamState } from './policy.ts'
import { Reader } from './reader.ts'
import { ServedStream, type ServedStreamHost } from './served-stream.ts'
import type { FailureReason, ServingAction, ServingInput, StreamOwner } from './serving-events.ts'
import type { ServingMachineOptions } from './serving-rules.ts'

/** The streams of a serving machine: which there are, and which of their rows wait for a step or for memory. Mutable. */
export class ServedStreams implements ServedStreamHost {
  readonly memory: KvMemory
  readonly waits: MemoryWaits
  readonly hasSlowTier: boolean
  readonly actions = new PendingActions<ServingAction>()
  /** Answers that wait for their first step. */
  readonly answers: AnswerQueue
  readonly #options: ServingMachineOptions
  readonly #streams = new Map<number, ServedStream>()
  /** Places of streams whose rows wait, in the order in which the rows arrived. Those of another `queueAt` have left theirs. */
  readonly #places: ServedStream[] = []
  /** Of the present input. */
  nowMs = 0
  /** The next plan may differ from the last one. */
  isDue = false
  isStopped = false
  stepsBegun = 0

  constructor(options: ServingMachineOptions) {
    const { maxMemoryWaitMs, policy, whatIf } = options
    const { waitsForMemory = false } = whatIf ?? {}
    this.#options = options
    this.memory = new KvMemory(options.memory, (handle) => this.actions.push({ kind: 'release prefix', handle }))
    this.waits = new MemoryWaits(this.memory, { maxMemoryWaitMs, waitsForMemory, heedsReaders: policy.heedsReaders ?? false })
    this.answers = new AnswerQueue(options.maxWaitingAnswers)
    this.hasSlowTier = options.tiers.slowBytes > 0
  }

  get(id: number): ServedStream | undefined {
    return this.#streams.get(id)
  }

  demand(id: number): ServedStream {
    const stream = this.#streams.get(id)
    if (!stream) throw new Error(`stream ${id} is not open`)
    return stream
  }

  /**
   * Those with waiting rows, in the order in which the rows arrived. Until the owner may have the memory that its waiting rows need,
   * an evicted stream is no concern of the policy.
   */
  get waiting(): readonly StreamState[] {
    const waiting = this.#compact()
    return waiting.every(this.#isWithinShare) ? waiting : waiting.filter(this.#isWithinShare)
  }

  /** The others. */
  get idle(): readonly StreamState[] {
    return [...this.#streams.values()].filter(({ queueAt, isClosing, isInStep }) => queueAt < 0 && (!isClosing || isInStep))
  }

  readonly #isWithinShare = (stream: ServedStream): boolean =>
    stream.source === 'answer' || stream.place !== 'evicted' || this.memory.isWithinShare(stream, stream.missingBytes)

  openSession(input: OfKind<ServingInput, 'session opened'>): void {
    const { positions, reader } = input
    const stream = this.#add(input, 'device', reader)
    if (this.memory.charge(stream, positions * stream.size.bytesPerPosition)) {
      this.admit(stream)
      return
    }
    stream.wait(positions, 'prefill', this.nowMs)
    this.#enqueueIf(this.#mayWaitForOthers(stream), stream)
  }

  /** A session has its first memory. */
  admit(session: ServedStream): void {
    if (session.waitingRows > 0) this.waitNoMore(session)
    session.isNew = false
    session.place = 'resident'
    this.actions.push({ kind: 'admitted', stream: session.id })
  }

  resumeSession(input: OfKind<ServingInput, 'session resumed'>): void {
    const stream = this.#add(input, 'device')
    if (!this.memory.takeCached(input.handle, stream)) throw new Error('a session resumes what is not cached')
    stream.isNew = false
    stream.place = 'resident'
    stream.reshape(input.rows, input.rows, 0)
  }

  openAnswer(input: OfKind<ServingInput, 'answer opened'>): void {
    const { stream: id, client, tokensPerS, rows, following } = input
    const entry = this.answers.enter(client, this.nowMs)
    if (entry.kind === 'refused') {
      this.actions.push({ kind: 'refused', stream: id, full: entry.full })
      return
    }
    if (entry.kind === 'displaced') {
      const displaced = this.#latestAnswer(entry.client)
      displaced.isNew = false
      this.waitNoMore(displaced)
      this.actions.push({ kind: 'displaced', stream: displaced.id, full: entry.full })
    }
    // The last token becomes no row.
    const stream = this.#add(input, 'answer', new Reader(tokensPerS, following + 1, this.nowMs))
    stream.followingRows = following
    stream.wait(rows, 'prefill', this.nowMs)
    if (this.isStopped) this.fail(stream, 'stopped')
    else this.#enqueue(stream)
  }

  addRows({ stream: id, rows, phase, following }: OfKind<ServingInput, 'rows'>): void {
    const stream = this.demand(id)
    stream.followingRows = following
    stream.wait(rows, phase, this.nowMs)
    if (stream.source === 'answer') stream.reader?.deliver(1, this.nowMs)
    if (this.isStopped) this.fail(stream, 'stopped')
    else this.#enqueueIf(stream.source === 'answer' || this.#mayWait(stream), stream)
  }

  report({ stream: id, tokensPerS, unread }: OfKind<ServingInput, 'reported'>): void {
    const stream = this.demand(id)
    // How long the answer becomes is the device's secret: as long as the context, at most.
    stream.reader ??= new Reader(tokensPerS, this.#options.contextLimit, this.nowMs)
    stream.reader.setRate(tokensPerS, this.nowMs)
    stream.reader.report(unread, this.nowMs)
  }

  /** An answer no longer waits for its first step. */
  leaveQueue(stream: ServedStream): void {
    if (stream.isNew && stream.source === 'answer') this.answers.leave(stream.client, this.nowMs)
    stream.isNew = false
  }

  waitNoMore(stream: ServedStream): void {
    stream.queueAt = -1
    stream.waitNoMore()
    this.waits.end(stream)
    this.isDue = true
  }

  /** The rows that wait cannot be computed. */
  fail(stream: ServedStream, why: FailureReason): void {
    const length = stream.contextLength + stream.waitingRows
    this.waitNoMore(stream)
    this.actions.push({ kind: 'fail', stream: stream.id, why, length })
  }

  rejectWaiting(): void {
    for (const stream of [...this.#compact()]) if (!stream.isInStep) this.fail(stream, 'stopped')
  }

  /** @param handle under which its KV is cached; undefined: it is released */
  forget(id: number, handle: string | undefined): void {
    const stream = this.demand(id)
    this.#streams.delete(id)
    if (handle === undefined) this.memory.release(stream)
    else this.memory.cache(handle, stream)
    this.isDue = true
  }

  #add({ stream: id, owner, client }: StreamOwner, source: 'device' | 'answer', reader?: Reader): ServedStream {
    const stream = new ServedStream({ id, owner, client, source, reader, size: this.#options.sizes[source] }, this)
    this.#streams.set(id, stream)
    return stream
  }

  /** Of those that wait for their first step. */
  #latestAnswer(client: string): ServedStream {
    let latest: ServedStream | undefined
    for (const stream of this.#streams.values())
      if (stream.isNew && stream.source === 'answer' && stream.client === client) latest = stream
    if (!latest) throw new Error('the queue counts an answer that is not there')
    return latest
  }

  /** Whether a device's rows have memory, or may wait for it. */
  #mayWait(stream: ServedStream): boolean {
    const { neededBytes } = stream
    if (stream.isResident) return this.memory.charge(stream, neededBytes) || this.#mayWaitForOthers(stream)
    if (!this.memory.canHold(neededBytes)) return false
    this.waits.begin(stream, this.nowMs)
    return true
  }

  /** Begins to wait for memory that others hold, where it could be enough. */
  #mayWaitForOthers(stream: ServedStream): boolean {
    if (!this.waits.couldEnd(stream, this.#streams.values())) return false
    this.waits.begin(stream, this.nowMs)
    return true
  }

  #enqueueIf(mayWait: boolean, stream: ServedStream): void {
    if (mayWait) this.#enqueue(stream)
    else this.fail(stream, 'memory')
  }

  #enqueue(stream: ServedStream): void {
    stream.queueAt = this.#places.length
    this.#places.push(stream)
    this.isDue = true
  }

  /** Without the places that streams have left. Valid until the next stream waits. */
  #compact(): readonly ServedStream[] {
    const places = this.#places
    let kept = 0
    for (let at = 0; at < places.length; at += 1) {
      const stream = places[at]!
      if (stream.queueAt !== at) continue
      stream.queueAt = kept
      places[kept++] = stream
    }
    places.length = kept
    return places
  }
}
