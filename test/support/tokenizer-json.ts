/** tokenizer.json of a byte-level BPE without merges, with one special token after its vocabulary. */
export function tokenizerJson(vocab: Record<string, number>, specialId: number): object {
  return {
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    model: { type: 'BPE', vocab, merges: [] },
    added_tokens: [{ id: specialId, content: '<x>', special: true }],
    decoder: { type: 'ByteLevel' },
  }
}
