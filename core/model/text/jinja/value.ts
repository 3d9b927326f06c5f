import { Environment, Interpreter } from '@huggingface/jinja'

// The package's type declarations import files without an extension, so TypeScript sees `any`. These are the parts that we use.

/** A value while a template runs, e.g. { type: 'StringValue', value: 'a' }. Lists hold values, mappings hold a Map of values. */
export interface Value {
  readonly type: string
  readonly value: unknown
}

/** A node of the parsed template: a statement or an expression. */
export interface Node {
  readonly type: string
  readonly [field: string]: unknown
}

/** The variables that a node can read. */
export interface Scope {
  /** Declares a variable of a JavaScript value and returns it as a template value. */
  set(name: string, value: unknown): Value
}

export const BaseInterpreter = Interpreter as unknown as new (
  global: Scope,
) => { evaluate(node: Node | undefined, scope: Scope): Value }

export const newScope = (parent?: Scope): Scope => new Environment(parent) as unknown as Scope

/** A JavaScript value as the template sees it. */
export const toValue = (value: unknown): Value => newScope().set('value', value)

export const isUndefined = ({ type }: Value): boolean => type === 'UndefinedValue'
export const isString = ({ type }: Value): boolean => type === 'StringValue'
export const isList = ({ type }: Value): boolean => type === 'ArrayValue' || type === 'TupleValue'
export const isMapping = ({ type }: Value): boolean => type === 'ObjectValue'
export const isNumeric = ({ type }: Value): boolean => ['IntegerValue', 'FloatValue', 'BooleanValue'].includes(type)

/** Python's `==`. */
export function equal(a: Value, b: Value): boolean {
  if (isNumeric(a) && isNumeric(b)) return Number(a.value) === Number(b.value)
  if (a.type !== b.type) return false
  if (isList(a)) {
    const [first, second] = [a.value as Value[], b.value as Value[]]
    return first.length === second.length && first.every((item, i) => equal(item, second[i]!))
  }
  if (isMapping(a)) {
    const [first, second] = [a.value as Map<string, Value>, b.value as Map<string, Value>]
    return first.size === second.size && [...first].every(([key, item]) => second.has(key) && equal(item, second.get(key)!))
  }
  return a.value === b.value
}
