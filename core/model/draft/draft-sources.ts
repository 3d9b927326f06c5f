/** What can draft the LLM's tokens on a device. */
export type DraftSource =
  | { readonly kind: 'adapter' | 'lookup' }
  /** A small whole model with the LLM's tokenizer. */
  | { readonly kind: 'slm'; readonly model: string }

interface DraftingModels {
  /** Whether the bundle has an adapter, or would get one. */
  readonly hasAdapter: boolean
  /** SHA-256 of the LLM's tokenizer.json; undefined: it has none. */
  readonly tokenizerHash: string | undefined
  /** Small whole models on the device. */
  readonly small: readonly { readonly name: string; readonly tokenizerHash: string | undefined }[]
}

/** The sources that a device could draft from. Prompt lookup needs no model, so there is always one. */
export function draftSources({ hasAdapter, tokenizerHash, small }: DraftingModels): DraftSource[] {
  const matching = small.filter((model) => tokenizerHash !== undefined && model.tokenizerHash === tokenizerHash)
  return [
    ...(hasAdapter ? [{ kind: 'adapter' as const }] : []),
    ...matching.map(({ name }) => ({ kind: 'slm' as const, model: name })),
    { kind: 'lookup' as const },
  ]
}
