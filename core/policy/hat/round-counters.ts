export class RoundCounters {
  /** Tokens of the answer so far. */
  tokens = 0
  rounds = 0
  drafted = 0
  accepted = 0
  #tokensOfRounds = 0

  /** The first token, at the end of prefill. */
  first(): void {
    this.tokens = 1
  }

  /** @param tokens that the round added to the answer */
  round(tokens: number, drafted: number, accepted: number): void {
    this.tokens += tokens
    this.rounds += 1
    this.drafted += drafted
    this.accepted += accepted
    this.#tokensOfRounds += tokens
  }

  get figures() {
    const { rounds, drafted, accepted } = this
    return { rounds, acceptLength: rounds === 0 ? null : this.#tokensOfRounds / rounds, drafted, accepted }
  }
}
