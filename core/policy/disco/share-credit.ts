/** Prompts of mean length within which an excess is made up: the more, the longer it lasts; the fewer, the more the plans swing. */
const horizonPrompts = 8
/** Prompts after which one counts half for their mean length. */
const halfLife = 100
const minShare = 1e-9

/**
 * What the limited side has processed more or less than its share b of the prompt tokens. Plans keep to b in expectation, by what is
 * known of server and prompts, which is little at first; this feeds back what came of them. Mutable.
 */
export class ShareCredit {
  /** Tokens, within ± `horizonPrompts` of mean length: what an outage forces on a side is not held against it for long. */
  #credit = 0
  #weight = 0
  #tokens = 0

  /** A request is planned. @param promptTokens of which the side may process the part b */
  asked(promptTokens: number, share: number): void {
    const decay = 2 ** (-1 / halfLife)
    this.#weight = this.#weight * decay + 1
    this.#tokens = this.#tokens * decay + promptTokens
    this.#add(share * promptTokens)
  }

  /** The limited side has begun it. */
  begun(promptTokens: number): void {
    this.#add(-promptTokens)
  }

  /** The share to plan with, 0..1, so that b holds over the requests to come. */
  planned(share: number): number {
    if (share <= 0 || share >= 1 || this.#tokens === 0) return share
    // A share of 0 is an owner who wants nothing from that side, not even for the slowest starts.
    return Math.min(1, Math.max(minShare, share + this.#credit / this.#horizonTokens))
  }

  get #horizonTokens(): number {
    return (horizonPrompts * this.#tokens) / this.#weight
  }

  #add(tokens: number): void {
    const most = this.#horizonTokens
    this.#credit = Math.min(most, Math.max(-most, this.#credit + tokens))
  }
}
