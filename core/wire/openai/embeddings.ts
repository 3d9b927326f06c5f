import { z } from 'zod'
import { listOf } from '../../kit/base/list-of.ts'

/** Texts of one request. */
export const maxEmbeddedTexts = 256
const Token = z.int().min(0)
const TokenIds = listOf(Token, { min: 1, max: 2 ** 24 })

export const EmbeddingsRequest = z.object({
  model: z.string().max(256).nullish(),
  input: z.union([
    z.string().min(1),
    listOf(z.string().min(1), { min: 1, max: maxEmbeddedTexts }),
    TokenIds,
    listOf(TokenIds, { min: 1, max: maxEmbeddedTexts }),
  ]),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  /** The first so many values, made a vector of length 1 again. */
  dimensions: z.int().min(1).nullish(),
  user: z.string().max(1_024).nullish(),
})

export const EmbeddingsResponse = z.object({
  object: z.literal('list'),
  data: z.array(
    z.object({
      object: z.literal('embedding'),
      index: z.int(),
      /** Numbers, or float32 values in little endian as base64. */
      embedding: z.union([z.array(z.number()), z.string()]),
    }),
  ),
  model: z.string(),
  usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
})
export type EmbeddingsResponse = z.infer<typeof EmbeddingsResponse>
