import { openRuntime, type RuntimeOptions } from '../../../core/model/engine/capi.ts'
import type { Chain } from '../../../core/model/engine/contract.ts'
import { openModel } from '../../../core/model/engine/open-model.ts'
import { compareWithReference, referenceAnswer } from '../../../core/model/engine/reference.ts'
import type { Runtime } from '../../../core/model/engine/runtime.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { serveRequests } from '../../cluster/worker-process.ts'
import { type CompanyCounts, decodeAlone, measureCompany, type StreamSteps } from './company.ts'
import { measurePlacement, type Placement } from './placement.ts'
import { promptIds } from './prompt.ts'

/** To a process that has the provider: what a bundle's steps are there. */
export interface ExactnessRequest {
  readonly bundle: string
  readonly runtime: RuntimeOptions
  /** Answers that are compared with the CPU's, and their tokens. */
  readonly prompts: number
  readonly tokens: number
  /** Rows of each stream whose company varies. */
  readonly rows: number
}

export interface ExactnessReply {
  readonly onnxruntime: string
  readonly placement: Placement
  /** Greedy tokens of the provider against those of the reference on the CPU, which has read the same tokens. */
  readonly tokens: { readonly tokens: number; readonly tokensDiffering: number; readonly nearTies: number }
  readonly company: Readonly<Record<'chunks' | 'packed', CompanyCounts>>
}

const companies: Readonly<Record<keyof ExactnessReply['company'], readonly StreamSteps[]>> = {
  chunks: [{ sizes: [7, 2, 16] }],
  packed: [{ sizes: [1] }, { sizes: [4, 1] }],
}

serveRequests(async (request: ExactnessRequest): Promise<ExactnessReply> => {
  const placement = await measurePlacement(request.runtime, request.bundle)
  await using own = await openRuntimeOf(request.runtime)
  await using cpu = await openRuntimeOf({ library: request.runtime.library })
  const measured = await withChain(own.runtime, request.bundle, (there) =>
    withChain(cpu.runtime, request.bundle, (here) => compare(there, here, request)),
  )
  return { onnxruntime: own.runtime.info.version, placement, ...measured }
})

async function compare(there: Chain, here: Chain, { prompts, tokens, rows }: ExactnessRequest) {
  const { vocab } = there.manifest.dims
  const total = { tokens: 0, tokensDiffering: 0, nearTies: 0 }
  for (let at = 0; at < prompts; at++) {
    const prompt = promptIds(8 + at, vocab).map((id) => (id + at) % vocab)
    const answer = await referenceAnswer(there, prompt, greedy, tokens, [])
    const compared = await compareWithReference(here, prompt, greedy, answer)
    total.tokens += compared.tokens
    total.nearTies += compared.nearTies
    total.tokensDiffering += compared.tokens - compared.agreeing - compared.nearTies
  }
  const ids = promptIds(rows, vocab)
  const alone = await decodeAlone(there, ids)
  const chunks = await measureCompany(there, ids, alone, companies.chunks)
  const packed = await measureCompany(there, ids, alone, companies.packed)
  return { tokens: total, company: { chunks, packed } }
}

async function openRuntimeOf(options: RuntimeOptions) {
  const runtime = await openRuntime(options)
  return { runtime, [Symbol.asyncDispose]: () => runtime.close() }
}

async function withChain<Result>(runtime: Runtime, bundle: string, use: (chain: Chain) => Promise<Result>): Promise<Result> {
  await using model = await openModel(runtime, bundle, { parts: 'chain', threads: 1 })
  return await use(model.chain({ cuts: 'half' }))
}
