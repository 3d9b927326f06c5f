import type { Closers } from '../../kit/base/closers.ts'
import type { RequestLimits } from '../api/served.ts'
import { type EmbeddingModelOptions, openEmbeddingModel } from './embedding-model.ts'
import { Embeddings } from './embeddings.ts'

interface EmbeddingsOptions extends Omit<EmbeddingModelOptions, 'bundle'> {
  /** Folder of the bundle. Undefined: there is no model for embeddings. */
  readonly embedding?: string | undefined
  readonly limits: RequestLimits
}

/** `/v1/embeddings` with the model that it has. @throws as openEmbeddingModel */
export async function openEmbeddings(
  { embedding, limits, ...options }: EmbeddingsOptions,
  closers: Closers,
): Promise<Embeddings> {
  if (embedding === undefined) return new Embeddings({ model: undefined, limits })
  const model = await openEmbeddingModel({ ...options, bundle: embedding })
  closers.push(model.close)
  return new Embeddings({ model, limits })
}
