import { dumps, type JsonOptions, str, strip } from './python-text.ts'
import {
  BaseInterpreter,
  equal,
  isList,
  isMapping,
  isString,
  isUndefined,
  type Node,
  newScope,
  type Scope,
  toValue,
  type Value,
} from './value.ts'

/** A node for an expression that has been evaluated already. */
const evaluated = (value: Value): Node => ({ type: 'Evaluated', value })

/** Nodes that write nothing themselves; every other node in a body writes its value. */
const statements = new Set('If For Set Macro Comment CallStatement FilterStatement Break Continue'.split(' '))

/** Reads an argument by its position or name. */
type Arguments = (at: number, name?: string) => unknown

/**
 * Runs templates as transformers does. Where @huggingface/jinja silently deviates from Jinja and Python, this class evaluates
 * the node itself: printing, strip and trim, join, tojson, equality, string concatenation, undefined attributes,
 * loops over undefined, variables that are set in a loop.
 */
export class PythonInterpreter extends BaseInterpreter {
  readonly #written = new WeakSet<Node>()
  readonly #maxSteps: number
  #steps = 0

  /** @param maxSteps evaluations of nodes; one more throws */
  constructor(scope: Scope, maxSteps: number) {
    super(scope)
    this.#maxSteps = maxSteps
  }

  override evaluate(node: Node | undefined, scope: Scope): Value {
    if (!node) return super.evaluate(node, scope)
    if (++this.#steps > this.#maxSteps) throw new Error(`it takes more than ${this.#maxSteps} steps`)
    for (const body of [node.body, node.alternate, node.defaultBlock] as (Node[] | undefined)[])
      for (const each of body ?? []) if (!statements.has(each.type)) this.#written.add(each)
    const value = this.#evaluateAsPython(node, scope) ?? super.evaluate(node, scope)
    return this.#written.has(node) && !isString(value) ? toValue(str(value)) : value
  }

  /** @returns undefined where the library behaves as Jinja does */
  #evaluateAsPython(node: Node, scope: Scope): Value | undefined {
    switch (node.type) {
      case 'Evaluated':
        return node.value as Value
      case 'For':
        return this.#loop(node, scope)
      case 'LoopPass':
        return super.evaluate({ type: 'Program', body: node.body }, newScope(scope))
      case 'MemberExpression':
        return this.#member(node, scope)
      case 'BinaryExpression':
        return this.#operator(node, scope)
      case 'TestExpression':
        return this.#test(node, scope)
      case 'FilterExpression':
        return this.#filter(node, scope)
      case 'CallExpression':
        return this.#stringMethod(node, scope)
      default:
        return undefined
    }
  }

  /** In Jinja each pass starts without the variables that the previous pass set, so it runs in its own scope. */
  #loop(node: Node, scope: Scope): Value {
    const iterable = node.iterable as Node
    const isFiltered = iterable.type === 'SelectExpression'
    const items = this.evaluate(isFiltered ? (iterable.lhs as Node) : iterable, scope)
    const known = evaluated(isUndefined(items) ? toValue([]) : items)
    const body = [{ type: 'LoopPass', body: node.body }]
    return super.evaluate({ ...node, iterable: isFiltered ? { ...iterable, lhs: known } : known, body }, scope)
  }

  #member(node: Node, scope: Scope): Value {
    const object = this.evaluate(node.object as Node, scope)
    if (isUndefined(object)) throw new Error(`${nameOf(node.object as Node)} is undefined`)
    return super.evaluate({ ...node, object: evaluated(object) }, scope)
  }

  #operator(node: Node, scope: Scope): Value | undefined {
    const operator = (node.operator as { value: string }).value
    if (!['==', '!=', '~', '+', 'in', 'not in'].includes(operator)) return undefined
    const left = this.evaluate(node.left as Node, scope)
    const right = this.evaluate(node.right as Node, scope)
    if (operator === '==' || operator === '!=') return toValue(equal(left, right) === (operator === '=='))
    if (operator === '~') return toValue(str(left) + str(right))
    if (operator === '+' && isString(left) !== isString(right) && !isUndefined(left) && !isUndefined(right))
      throw new Error(`cannot add ${left.type} and ${right.type}`)
    if (operator.endsWith('in') && isList(right))
      return toValue((right.value as Value[]).some((item) => equal(item, left)) === (operator === 'in'))
    return super.evaluate({ ...node, left: evaluated(left), right: evaluated(right) }, scope)
  }

  #test(node: Node, scope: Scope): Value | undefined {
    const name = (node.test as { value: string }).value
    if (name !== 'iterable') return undefined
    const value = this.evaluate(node.operand as Node, scope)
    const isIterable = isString(value) || isList(value) || isMapping(value) || isUndefined(value)
    return toValue(isIterable !== node.negate)
  }

  #filter(node: Node, scope: Scope): Value | undefined {
    const filter = node.filter as Node
    const { value: name } = (filter.type === 'CallExpression' ? filter.callee : filter) as { value: string }
    if (!['trim', 'string', 'join', 'tojson', 'capitalize'].includes(name)) return undefined
    const operand = this.evaluate(node.operand as Node, scope)
    const argument = this.#arguments((filter.args ?? []) as Node[], scope)
    switch (name) {
      case 'trim':
        return toValue(strip(str(operand), argument(0, 'chars') as string | undefined, 'both'))
      case 'string':
        return toValue(str(operand))
      case 'capitalize':
        return toValue(capitalize(str(operand)))
      case 'join': {
        const items = isString(operand) ? Array.from(str(operand)).map(toValue) : (operand.value as Value[])
        if (!Array.isArray(items)) throw new Error(`cannot join a ${operand.type}`)
        const attribute = argument(1, 'attribute')
        const property = { type: 'Identifier', value: attribute }
        const read = (item: Value) =>
          attribute === undefined ? item : this.#member({ type: 'MemberExpression', object: evaluated(item), property }, scope)
        return toValue(items.map((item) => str(read(item))).join((argument(0, 'd') as string | undefined) ?? ''))
      }
      default:
        return toValue(dumps(operand, jsonOptions(argument)))
    }
  }

  #stringMethod(node: Node, scope: Scope): Value | undefined {
    const { object, property, computed } = node.callee as unknown as { object?: Node; property?: Node; computed?: boolean }
    const method = property?.value as string
    const ends = ({ strip: 'both', lstrip: 'left', rstrip: 'right' } as const)[method]
    if (!object || computed || !(ends || method === 'capitalize')) return undefined
    const text = this.evaluate(object, scope)
    if (!isString(text)) return super.evaluate({ ...node, callee: { ...(node.callee as Node), object: evaluated(text) } }, scope)
    if (!ends) return toValue(capitalize(str(text)))
    const characters = this.#arguments(node.args as Node[], scope)(0) as string | null | undefined
    return toValue(strip(str(text), characters ?? undefined, ends))
  }

  #arguments(nodes: readonly Node[], scope: Scope): Arguments {
    const positional: Value[] = []
    const named = new Map<string, Value>()
    for (const node of nodes)
      if (node.type === 'KeywordArgumentExpression')
        named.set((node.key as { value: string }).value, this.evaluate(node.value as Node, scope))
      else positional.push(this.evaluate(node, scope))
    return (at, name = '') => (positional[at] ?? named.get(name))?.value
  }
}

/** Arguments of `tojson`, in the order of transformers. */
function jsonOptions(argument: Arguments): JsonOptions {
  const separators = argument(2, 'separators') as readonly Value[] | null | undefined
  return {
    ensureAscii: argument(0, 'ensure_ascii') === true,
    indent: (argument(1, 'indent') ?? undefined) as number | undefined,
    separators: separators ? [str(separators[0]!), str(separators[1]!)] : undefined,
    sortKeys: argument(3, 'sort_keys') === true,
  }
}

/** Python's `text.capitalize()`: the rest becomes lower case. */
function capitalize(text: string): string {
  const [first = '', ...rest] = Array.from(text)
  return first.toUpperCase() + rest.join('').toLowerCase()
}

/** The expression in the template's notation, for errors. */
function nameOf(node: Node): string {
  if (node.type === 'Identifier') return String(node.value)
  if (node.type !== 'MemberExpression') return 'a value'
  const key = nameOf(node.property as Node)
  const object = nameOf(node.object as Node)
  return node.computed ? `${object}[…]` : `${object}.${key}`
}
