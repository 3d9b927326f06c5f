import { RE2JS } from 're2js'
import { type StrictMode, strictModes } from '../../core/policy/disco/strict-mode.ts'

/** The words of a rule: its name, the mode that it allows at most, its pattern. */
const ruleForm = /^([a-z0-9][a-z0-9-]{0,63})=(\w+):(.+)$/s
const maxPatternChars = 1_000

/** What has decided on a prompt. */
export interface AppliedRule {
  readonly name: string
  readonly mode: StrictMode
}

export interface PromptRule extends AppliedRule {
  readonly pattern: RE2JS
}

/**
 * A rule as it is configured: `medical=private:(?i)biopsy`. The engine is RE2's: its time is linear in the text, whatever the pattern,
 * so that no prompt can stop the agent; it has neither backreferences nor lookarounds.
 * @throws Error that says what is wrong
 */
export function parseRule(text: string): PromptRule {
  const [, name = '', mode = '', source = ''] = ruleForm.exec(text) ?? []
  const strict = strictModes.find((each) => each === mode)
  if (!strict) throw new Error(`must be like medical=private:(?i)biopsy: a name, ${strictModes.join(' or ')}, and a pattern`)
  if (source.length > maxPatternChars)
    throw new Error(`has a pattern of ${source.length} characters; the limit is ${maxPatternChars}`)
  try {
    return { name, mode: strict, pattern: RE2JS.compile(source) }
  } catch (error) {
    throw new Error(`has a pattern that RE2 cannot read: ${error instanceof Error ? error.message : String(error)}`)
  }
}
