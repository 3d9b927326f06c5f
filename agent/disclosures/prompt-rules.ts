import { setImmediate } from 'node:timers/promises'
import type { AnswerRequest } from '../../core/answer/endpoint/endpoint.ts'
import type { DeviceMode } from '../../core/kit/base/answer-modes.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { showsMore, strictModes } from '../../core/policy/disco/strict-mode.ts'
import { classifierAllows } from './classifier.ts'
import type { PrivacyConfig } from './config.ts'
import { type AppliedRule, parseRule } from './prompt-rule.ts'
import { textOfRequest } from './request-text.ts'

/** The owner's rules by the words of prompts, and the owner's classifier. */
export class PromptRules {
  /** The strictest first. */
  readonly #rules
  readonly #config: PrivacyConfig
  readonly #logger: Logger

  constructor(config: PrivacyConfig, logger: Logger) {
    const strictness = ({ mode }: AppliedRule) => strictModes.indexOf(mode)
    this.#rules = (config.rules ?? []).map(parseRule).sort((a, b) => strictness(b) - strictness(a))
    this.#config = config
    this.#logger = logger
  }

  /** The strictest that applies to a request in this mode; undefined: none, or none that would show less. @throws the signal's reason */
  async appliedTo(request: AnswerRequest, mode: DeviceMode, signal: AbortSignal): Promise<AppliedRule | undefined> {
    const { classifier: url, classifierTimeoutS } = this.#config
    const rules = this.#rules.filter((rule) => showsMore(mode, request.isPrivate === true, rule.mode))
    const isClassified = url !== undefined && showsMore(mode, request.isPrivate === true, 'private')
    if (rules.length === 0 && !isClassified) return undefined
    const text = textOfRequest(request)
    for (const rule of rules) {
      // Other requests go on between patterns: one takes up to 50 ms for the longest prompt.
      await setImmediate()
      signal.throwIfAborted()
      if (rule.pattern.test(text)) return rule
    }
    if (!isClassified) return undefined
    try {
      const isAllowed = await classifierAllows(text, url, classifierTimeoutS * 1_000, signal)
      return isAllowed ? undefined : { name: 'classifier', mode: 'private' }
    } catch (err) {
      signal.throwIfAborted()
      this.#logger.warn({ err }, 'the classifier of prompts failed: the mode private applies')
      return { name: 'classifier failed', mode: 'private' }
    }
  }
}
