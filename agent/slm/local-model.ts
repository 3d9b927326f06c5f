import { join } from 'node:path'
import type { Chain } from '../../core/engine/contract.ts'
import { openBundle } from '../../core/engine/open-bundle.ts'
import { type Manifest, tokenizerFolder } from '../../core/model/manifest.ts'
import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { type ChatTemplate, loadChatTemplate } from '../../core/text/chat-template.ts'
import { loadTokenizer, type TextTokenizer, tokenizerFile } from '../../core/text/tokenizer.ts'

/** A small model of the device's own, whole: it needs no bridge. */
export interface LocalModel {
  readonly name: string
  readonly modelId: string
  readonly chain: Chain
  readonly tokenizer: TextTokenizer
  readonly chatTemplate: ChatTemplate | undefined
  /** The split model's token ids are its own too. */
  readonly sameVocabulary: boolean
  /** As measured from its answers. */
  readonly speed: DeviceSpeed
}

export interface LocalModelOptions {
  /** Folder of a bundle that was built without a split. */
  readonly bundle: string
  readonly threads: number
  readonly library?: string | undefined
}

/**
 * @param split what it stands in for
 * @throws BrimError BUNDLE_INVALID (also for a split bundle), BUNDLE_CORRUPT, TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID, RUNTIME_*, OUT_OF_MEMORY
 */
export async function openLocalModel(
  { bundle, threads, library }: LocalModelOptions,
  split: Manifest,
): Promise<LocalModel & { close(): Promise<void> }> {
  const model = await openBundle(bundle, { library, parts: ['whole'], threads })
  try {
    const folder = join(bundle, tokenizerFolder)
    const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(folder), loadChatTemplate(folder)])
    return {
      name: model.manifest.card.name,
      modelId: model.manifest.modelId,
      chain: model.chain({ cuts: 'full' }),
      tokenizer,
      chatTemplate,
      sameVocabulary: readsTokensOf(model.manifest, split),
      speed: new DeviceSpeed(),
      close: () => model.release(),
    }
  } catch (error) {
    await model.release()
    throw error
  }
}

/** By the tokenizers' files: the same file gives the same ids. Configurations and chat templates beside them may differ. */
export function readsTokensOf(own: Manifest, other: Manifest): boolean {
  const hash = tokenizerHash(own)
  return hash !== undefined && hash === tokenizerHash(other) && own.dims.vocab >= other.dims.vocab
}

const tokenizerHash = ({ files }: Manifest) => files.find(({ path }) => path === `${tokenizerFolder}/${tokenizerFile}`)?.sha256
