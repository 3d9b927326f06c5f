import type { TextModel } from '../../core/answer/endpoint/text-model.ts'

const sentence = 'Is there a good place to stay near the station, with breakfast and a room for two people? '

/** A prompt of so many tokens, for measurements. */
export function fillerIds(model: TextModel, count: number): number[] {
  let text = sentence
  while (model.tokenizer.encode(text).length < count) text += sentence
  return model.tokenizer.encode(text).slice(0, count)
}

/** Tokens of one model for the text of one token of another. */
export function tokenRatio(model: TextModel, other: TextModel): number {
  const count = ({ tokenizer }: TextModel) => tokenizer.encode(sentence, { addSpecialTokens: false }).length
  return count(model) / count(other)
}
