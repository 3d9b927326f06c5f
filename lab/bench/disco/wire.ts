import type { TextTokenizer } from '../../../core/model/text/tokenizer.ts'
import { bitsPerId } from '../../../core/wire/protocol/token-ids.ts'
import { sum } from '../../frame/statistics.ts'
import type { Instruction } from './data.ts'

/** What the answers of the Alpaca data take as token ids and as text (DiSCo §4.3). */
export interface WireFigures {
  readonly vocabulary: number
  readonly bitsPerId: number
  readonly bytesPerToken: number
  /** 1 − bits of the ids over bits of the text in UTF-8: in as few bits as the vocabulary needs, and in whole bytes. */
  readonly bitsCut: number
  readonly bytesCut: number
}

export function wireFigures(instructions: readonly Instruction[], tokenizer: TextTokenizer): WireFigures {
  const texts = instructions.map(({ answer }) => answer)
  const bytes = sum(texts.map((text) => Buffer.byteLength(text)))
  const tokens = sum(texts.map((text) => tokenizer.encode(text, { addSpecialTokens: false }).length))
  const bits = bitsPerId(tokenizer.vocabSize)
  return {
    vocabulary: tokenizer.vocabSize,
    bitsPerId: bits,
    bytesPerToken: bytes / tokens,
    bitsCut: 1 - (bits * tokens) / (8 * bytes),
    bytesCut: 1 - (Math.ceil(bits / 8) * tokens) / bytes,
  }
}
