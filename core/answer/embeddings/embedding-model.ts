import { encoder } from '../../model/bundle/manifest.ts'
import { VerifiedBundles } from '../../model/bundle/verified-bundles.ts'
import { Embedder } from '../../model/engine/embedder.ts'
import { openVerifiedBundle } from '../../model/engine/open-bundle.ts'
import type { ProviderWish } from '../../model/engine/provider.ts'
import { loadTextModel, type TextModel } from '../endpoint/text-model.ts'

/** A model that embeds texts. */
export interface EmbeddingModel {
  readonly modelId: string
  /** ISO 8601. */
  readonly createdAt: string
  readonly text: TextModel
  readonly embedder: Pick<Embedder, 'embed' | 'width'>
}

export interface EmbeddingModelOptions {
  readonly bundle: string
  readonly threads: number
  readonly library?: string | undefined
  /** What is to compute. Default: the CPU. */
  readonly provider?: ProviderWish | undefined
  readonly verified?: VerifiedBundles
}

/** @throws BrimError BUNDLE_INVALID (also for a bundle that answers), BUNDLE_CORRUPT, TOKENIZER_INVALID, RUNTIME_*, OUT_OF_MEMORY */
export async function openEmbeddingModel({
  bundle,
  verified = new VerifiedBundles(),
  ...options
}: EmbeddingModelOptions): Promise<EmbeddingModel & { close(): Promise<void> }> {
  const model = await openVerifiedBundle(bundle, { ...options, parts: [encoder], verified })
  try {
    const { modelId, card } = model.manifest
    const text = await loadTextModel(bundle, model.manifest)
    return { modelId, createdAt: card.createdAt, text, embedder: new Embedder(model), close: () => model.release() }
  } catch (error) {
    await model.release()
    throw error
  }
}
