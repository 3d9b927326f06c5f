import { z } from 'zod'
import { publishedAs, readPaper } from '../paper-file.ts'

export const paper = readPaper('hat')

export const datasets = ['short', 'long'] as const
export type Dataset = (typeof datasets)[number]
export const methods = ['hat', 'u-sarathi', 'u-medusa', 'u-shape'] as const

const number = z.number()
const pair = z.tuple([number, number])
const others = z.enum(methods).exclude(['hat'])
const byDataset = <Schema extends z.ZodType>(schema: Schema) => z.record(z.enum(datasets), schema)
const byMethod = <Schema extends z.ZodType>(schema: Schema) => z.record(z.enum(methods), schema)

export const paperPrompts = publishedAs(paper, 'prompts', byDataset(z.object({ mean: number, deviation: number })))
export const paperTtftMs = publishedAs(paper, 'ttftMs', byDataset(byMethod(number)))
export const paperTbtOfHatOver = publishedAs(paper, 'tbtOfHatOver', byDataset(z.record(others, number)))
/** Mean and standard deviation. */
export const paperStepMs = publishedAs(paper, 'stepMs', byDataset(byMethod(pair)))
/** Accept length and speed-up. */
export const paperAlone = publishedAs(paper, 'alone', byDataset(z.record(z.enum(['hat', 'u-medusa']), pair)))
/** TTFT and TBT. */
export const paperAblation = publishedAs(paper, 'ablation', byDataset(z.record(z.string(), pair)))
export const paperPrefillSla = publishedAs(paper, 'prefillSla', byDataset(z.object({ limitMs: number })))
export const paperDecodeSla = publishedAs(paper, 'decodeSla', byDataset(z.object({ quantile: number })))
export const paperShares = publishedAs(paper, 'shares', z.object({ device: number, network: number, cloud: number }))
