import type { TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import { loadTextModel, type TextModel } from '../../core/answer/endpoint/text-model.ts'
import type { Manifest } from '../../core/model/bundle/manifest.ts'
import type { ServedMiddle } from '../hat/serve-middle.ts'
import { bridgeEndpoint } from '../llm/endpoint.ts'
import type { OpenedModel } from '../serving/open-served-model.ts'
import type { Serving } from '../serving/serving.ts'
import { openUpstreams } from '../upstream/open-upstreams.ts'
import type { UpstreamPool } from '../upstream/upstream-pool.ts'
import type { Base } from './base.ts'

/** The whole of a served model. */
export interface OwnLlm {
  /** Of its bundle. */
  readonly folder: string
  readonly manifest: Manifest
  readonly endpoint: TokenEndpoint
}

/** What makes answers alone: the served models, and those of other servers. */
export interface Llms {
  readonly own: readonly OwnLlm[]
  readonly upstreams: UpstreamPool
}

/** @throws BrimError as the opening of a bundle; CONFIG_INVALID for the keys of upstreams */
export async function openLlms(
  { config, clock, closers, logger }: Base,
  opened: readonly OpenedModel[],
  servings: ServedMiddle['servings'],
): Promise<Llms> {
  const upstreams = openUpstreams(config, clock, logger.child({ component: 'upstream' }))
  closers.push(() => upstreams.close())
  const own: OwnLlm[] = []
  for (const { folder, manifest, served } of opened) {
    if (!served.tokens) continue
    const serving = servings.get(manifest.modelId)!
    own.push({ folder, manifest, endpoint: bridgeEndpoint(serving, await loadLlm(folder, manifest, serving)) })
  }
  return { own, upstreams }
}

/** An answer has as much context as the KV memory holds, if that is less than the model's. */
async function loadLlm(bundle: string, manifest: Manifest, { maxPositions: contextLimit }: Serving): Promise<TextModel> {
  return loadTextModel(bundle, { ...manifest, dims: { ...manifest.dims, contextLimit } })
}
