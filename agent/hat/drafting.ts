import type { DraftAheadFigures } from '../../core/answer/figures.ts'
import type { Clock } from '../../core/base/clock.ts'
import type { DeviceStream } from '../../core/draft/device-stream.ts'
import { alternativesOf, DraftAhead, type PreparedDraft } from '../../core/draft/draft-ahead.ts'
import { type Draft, type DraftRules, draftTokens, noDraft } from '../../core/draft/draft-tokens.ts'
import type { Drafter, TreeDrafter } from '../../core/draft/drafter.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { type Branching, plannedStepsAhead, type RoundTrip, rowS } from '../../core/policy/hat/draft-ahead-steps.ts'
import { RoundPace } from '../../core/policy/hat/draft-pace.ts'
import { chainOf, type DraftTree } from '../../core/policy/hat/draft-tree.ts'

export interface DraftingOptions {
  readonly drafter: Drafter | TreeDrafter
  readonly stream: DeviceStream
  readonly speed: DeviceSpeed
  readonly clock: Clock
  /** η of HAT Eq. 5. */
  readonly threshold: number
  /** Whether drafts end by the pace of rounds in place of η. */
  readonly paced: boolean
  /** Tokens that end the answer. */
  readonly eos: readonly number[]
  /** Whether to draft ahead during verifications. */
  readonly ahead: boolean
  readonly branching: Branching
  readonly contextLimit: number
  /** Throws CANCELED once the answer is canceled. */
  checkCanceled(): void
}

/** The drafts of one answer. It owns the stream's rows after the verified ones. */
export class Drafting {
  readonly #options: DraftingOptions
  readonly #counts = { drafted: 0, rounds: 0, tokens: 0 }
  /** The last draft, where it can be continued. */
  #draft: Draft = noDraft
  #ahead: DraftAhead | undefined
  #prepared: PreparedDraft | undefined
  readonly #pace = new RoundPace()
  #roundMs = 0

  constructor(options: DraftingOptions) {
    this.#options = options
  }

  /** Null where drafting ahead is off. */
  get aheadFigures(): DraftAheadFigures | null {
    const { ahead, drafter } = this.#options
    return ahead && !('tree' in drafter) ? { ...this.#counts } : null
  }

  /**
   * Feeds the pending token and drafts after it, or continues the draft prepared ahead.
   * @param limit maximum length of a path
   * @param maxTokens maximum tokens of the draft, all paths together
   * @param linkS seconds that a row is on its way, up and down
   * @returns the drafted tokens, whose rows follow the pending one's
   */
  async draft(pending: number, limit: number, maxTokens = limit, linkS = 0): Promise<DraftTree> {
    const { drafter, clock, speed } = this.#options
    this.#roundMs = clock.nowMs()
    const prepared = this.#takePrepared(limit)
    if (!prepared) await this.#feed([pending])
    if ('tree' in drafter) return this.#draftTree(drafter, limit, maxTokens)
    const startedMs = clock.nowMs()
    const before = prepared?.tokens.length ?? 0
    const rules = this.#rules(limit, linkS + (speed.draftStepS ?? 0))
    this.#draft = await draftTokens(drafter, this.#options.stream, (tokens) => this.#feed(tokens), rules, prepared)
    speed.recordDraft(this.#draft.tokens.length - before, (clock.nowMs() - startedMs) / 1_000)
    return chainOf(this.#draft.tokens)
  }

  /**
   * Drafts ahead during a verification, for the steps that fit into the expected round trip (HAT Eq. 6) and no longer than
   * it lasts.
   * @param limit maximum tokens of the next draft
   * @param isOver whether the verification has ended
   */
  async draftAhead(trip: RoundTrip, limit: number, isOver: () => boolean): Promise<void> {
    const { drafter, stream, speed, clock, contextLimit, eos, ahead, branching } = this.#options
    if (!ahead || 'tree' in drafter || drafter.mayDraftAhead === false || limit === 0 || isOver()) return
    const maxSteps = plannedStepsAhead(trip, speed)
    if (maxSteps === 0 || stream.rows.length + alternativesOf(this.#draft, branching).length > contextLimit) return
    this.#options.checkCanceled()
    this.#ahead = await DraftAhead.begin(stream, this.#draft, eos, branching)
    // Steps take time that would pass without them.
    const rules = this.#rules(limit, rowS(trip))
    for (let step = 0; step < maxSteps && !isOver(); step++) {
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
   * Drops the rows that a verification has rejected. It keeps the rows up to the pending token's, the accepted ones, and a
   * prepared draft that follows them.
   * @param position of the token that was pending
   * @param path accepted nodes of the draft
   * @param next the next pending token
   */
  settle(position: number, path: readonly number[], next: number): void {
    const seconds = (this.#options.clock.nowMs() - this.#roundMs) / 1_000
    this.#pace.record({ tokens: path.length + 1, seconds, drafted: this.#draft.tokens.length, accepted: path.length })
    const accepted = path.map((node) => position + 1 + node)
    this.#prepared = this.#ahead?.preparedAfter(accepted.at(-1) ?? position, next)
    this.#gather(position + 1, [...accepted, ...(this.#prepared?.rows ?? [])])
    this.#ahead = undefined
  }

  #takePrepared(limit: number): Draft | undefined {
    const draft = this.#prepared?.draft
    this.#prepared = undefined
    if (!draft) return undefined
    this.#counts.rounds += 1
    const tokens = draft.tokens.slice(0, limit)
    this.#counts.tokens += tokens.length
    const excess = draft.tokens.length - tokens.length
    if (excess === 0) return draft
    this.#gather(this.#options.stream.rows.length - excess, [])
    const { probabilities, alternatives } = draft
    return { tokens, probabilities: probabilities.slice(0, limit), alternatives: alternatives.slice(0, limit), ended: true }
  }

  async #draftTree(drafter: TreeDrafter, limit: number, maxTokens: number): Promise<DraftTree> {
    const { stream, contextLimit } = this.#options
    const root = stream.rows.length - 1
    const available = Math.min(maxTokens, contextLimit - root - 1)
    if (limit === 0 || available === 0) return chainOf([])
    const whole = await drafter.tree(stream, limit)
    // Parents come before their children, so a beginning of a tree is a tree.
    const tree = { tokens: whole.tokens.slice(0, available), parents: whole.parents.slice(0, available) }
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
    // Rows that are in place already need not be moved.
    const moved = rows.findIndex((row, at) => row !== keep + at)
    const inPlace = moved < 0 ? rows.length : moved
    stream.gather(keep + inPlace, rows.slice(inPlace))
    drafter.gather(keep + inPlace, rows.slice(inPlace))
  }

  /** @param tokenS of another drafted token */
  #rules(limit: number, tokenS: number): DraftRules {
    const { threshold, eos, paced } = this.#options
    return { threshold, limit, eos, pace: paced ? this.#pace.paceAt(tokenS) : undefined }
  }

  async #feed(tokens: readonly number[]): Promise<void> {
    this.#options.checkCanceled()
    await this.#options.stream.feed(tokens)
  }
}
