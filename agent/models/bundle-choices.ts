import type { Store } from '../../core/kit/store/open-database.ts'

/** `llm`: the split model; `slm`: the small model that is whole on this device. */
export const modelRoles = ['llm', 'slm'] as const
export type ModelRole = (typeof modelRoles)[number]

/** A migration: the bundles that jobs have activated, and the option of `brim agent run` that each replaces. */
export const bundleChoicesTable =
  'CREATE TABLE bundle_choices (role TEXT PRIMARY KEY, model_id TEXT NOT NULL, instead_of TEXT NOT NULL) STRICT;'

/** The bundles that jobs have activated, on disk. */
export class BundleChoices {
  readonly #read
  readonly #write
  readonly #forget

  /** @param store has `bundleChoicesTable` */
  constructor(store: Store) {
    this.#read = store.prepare<[string], { modelId: string }>('SELECT model_id AS modelId FROM bundle_choices WHERE role = ?')
    this.#forget = store.prepare('DELETE FROM bundle_choices WHERE role = ? AND instead_of <> ?')
    this.#write = store.prepare('INSERT OR REPLACE INTO bundle_choices (role, model_id, instead_of) VALUES (?, ?, ?)')
  }

  /**
   * The model that was activated last. The latest decision counts: an option that has changed since then ends the activation.
   * @param configured the bundle that the agent was started with, as given
   */
  atStart(role: ModelRole, configured: string | undefined): string | undefined {
    if (configured !== undefined) this.#forget.run(role, configured)
    return this.#read.get(role)?.modelId
  }

  choose(role: ModelRole, modelId: string, configured: string | undefined): void {
    this.#write.run(role, modelId, configured ?? '')
  }
}
