import type { Clock } from '../../core/base/clock.ts'
import type { DeviceStream } from '../../core/draft/device-stream.ts'
import { DraftAhead, type PreparedDraft } from '../../core/draft/draft-ahead.ts'
import { type Draft, type DraftRules, draftTokens, noDraft } from '../../core/draft/draft-tokens.ts'
import type { Drafter, TreeDrafter } from '../../core/draft/drafter.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { draftAheadSteps, type RoundTrip } from '../../core/policy/hat/draft-ahead-steps.ts'
import { chainOf, type DraftTree } from '../../core/policy/hat/draft-tree.ts'
import type { DraftAheadFigures } from '../answer/figures.ts'

export interface DraftingOptions {
  readonly drafter: Drafter | TreeDrafter
  readonly stream: DeviceStream
  readonly speed: DeviceSpeed
  readonly clock: Clock
  /** η of HAT Eq. 5. */
  readonly threshold: number
  /** Tokens that end the answer. */
  readonly eos: readonly number[]
  /** Whether to draft on while a verification is away. */
  readonly ahead: boolean
  readonly contextLimit: number
  /** Throws where the answer has been stopped. */
  checkCanceled(): void
}

/** The drafts of one answer: the stream's rows behind what is verified are its own. */
export class Drafting {
  readonly #options: DraftingOptions
  readonly #counts = { drafted: 0, rounds: 0, tokens: 0 }
  /** What was drafted last, if that can be gone on with. */
  #draft: Draft = noDraft
  #ahead: DraftAhead | undefined
  #ready: PreparedDraft | undefined

  constructor(options: DraftingOptions) {
    this.#options = options
  }

  /** Null where nothing is drafted ahead. */
  get ahead(): DraftAheadFigures | null {
    const { ahead, drafter } = this.#options
    return ahead && !('tree' in drafter) ? { ...this.#counts } : null
  }

  /**
   * Feeds the pending token and drafts on from it; what stands ready is gone on with.
   * @param limit most tokens that may follow one another
   * @param most tokens of the draft
   * @returns the drafted tokens, whose rows follow the pending one's
   */
  async draft(pending: number, limit: number, most = limit): Promise<DraftTree> {
    const { drafter, clock, speed } = this.#options
    const ready = this.#takeReady(limit)
    if (!ready) await this.#feed([pending])
    if ('tree' in drafter) return this.#draftTree(drafter, limit, most)
    const startedMs = clock.nowMs()
    const before = ready?.tokens.length ?? 0
    this.#draft = await draftTokens(drafter, this.#options.stream, (tokens) => this.#feed(tokens), this.#rules(limit), ready)
    speed.recordDraft(this.#draft.tokens.length - before, (clock.nowMs() - startedMs) / 1_000)
    return chainOf(this.#draft.tokens)
  }

  /**
   * Drafts on while a verification is away, for as many steps as fit into the round trip and no longer than it takes.
   * @param limit most tokens that the next draft may have
   */
  async draftAhead(trip: RoundTrip, limit: number, isOver: () => boolean): Promise<void> {
    const { drafter, stream, speed, clock, contextLimit, eos, ahead } = this.#options
    if (!ahead || 'tree' in drafter || drafter.mayDraftAhead === false || limit === 0 || isOver()) return
    const stepS = speed.aheadStepS ?? speed.draftStepS
    if (stepS === undefined) return
    const most = draftAheadSteps(trip, stepS)
    // What is never measured again would stand for ever: it comes back to what a step takes that is no step ahead.
    if (most === 0 && speed.draftStepS !== undefined) speed.recordAheadStep(speed.draftStepS)
    if (most === 0 || stream.rows.length + this.#draft.alternatives.length > contextLimit) return
    this.#options.checkCanceled()
    this.#ahead = await DraftAhead.begin(stream, this.#draft, eos)
    const rules = this.#rules(limit)
    for (let step = 0; step < most && !isOver(); step++) {
      if (stream.rows.length + this.#ahead.maxRows(rules) > contextLimit) return
      const startedMs = clock.nowMs()
      const drafted = await this.#ahead.step(drafter, rules, isOver)
      if (drafted === 0) return
      this.#counts.drafted += drafted
      speed.recordAheadStep((clock.nowMs() - startedMs) / 1_000)
      this.#options.checkCanceled()
    }
  }

  /**
   * A verification has ended: all rows are dropped but those up to the pending token's, the accepted ones, and a
   * continuation that stands ready.
   * @param position of the token that was pending
   * @param path nodes of the draft that were accepted
   * @param next token, not yet in the stream
   */
  settle(position: number, path: readonly number[], next: number): void {
    const accepted = path.map((node) => position + 1 + node)
    this.#ready = this.#ahead?.preparedAfter(accepted.at(-1) ?? position, next)
    this.#gather(position + 1, [...accepted, ...(this.#ready?.rows ?? [])])
    this.#ahead = undefined
  }

  #takeReady(limit: number): Draft | undefined {
    const ready = this.#ready?.draft
    this.#ready = undefined
    if (!ready) return undefined
    this.#counts.rounds += 1
    const tokens = ready.tokens.slice(0, limit)
    this.#counts.tokens += tokens.length
    const tooMany = ready.tokens.length - tokens.length
    if (tooMany === 0) return ready
    this.#gather(this.#options.stream.rows.length - tooMany, [])
    return { tokens, alternatives: [], ended: true }
  }

  async #draftTree(drafter: TreeDrafter, limit: number, most: number): Promise<DraftTree> {
    const { stream, contextLimit } = this.#options
    const root = stream.rows.length - 1
    const room = Math.min(most, contextLimit - root - 1)
    if (limit === 0 || room === 0) return chainOf([])
    const whole = await drafter.tree(stream, limit)
    // Parents stand before their children: what is left of a tree is one.
    const tree = { tokens: whole.tokens.slice(0, room), parents: whole.parents.slice(0, room) }
    if (tree.tokens.length === 0) return tree
    this.#options.checkCanceled()
    await stream.feed(
      tree.tokens,
      tree.parents.map((parent) => root + 1 + parent),
    )
    return tree
  }

  #gather(keep: number, rows: readonly number[]): void {
    const { stream, drafter } = this.#options
    // Rows that follow anyway need not be moved.
    const moved = rows.findIndex((row, at) => row !== keep + at)
    const still = moved < 0 ? rows.length : moved
    stream.gather(keep + still, rows.slice(still))
    drafter.gather(keep + still, rows.slice(still))
  }

  #rules(limit: number): DraftRules {
    const { threshold, eos } = this.#options
    return { threshold, limit, eos }
  }

  async #feed(tokens: readonly number[]): Promise<void> {
    this.#options.checkCanceled()
    await this.#options.stream.feed(tokens)
  }
}
