import { dumps, type JsonOptions, str, strip } from './python-text.ts'
import {
  BaseInterpreter,
  equal,
  isList,
  isMapping,
  isString,
  isUndefined,
  type Node,
  type Scope,
  toValue,
  type Value,
} from './value.ts'

/** A node for an expression that has been evaluated already. */
const evaluated = (value: Value): Node => ({ type: 'Evaluated', value })

/** A node at the start of a loop's body: in Jinja each pass starts without the variables that the pass before set. */
const newPass = (names: readonly string[]): Node => ({ type: 'NewPass', names })

/** Nodes that write nothing themselves; every other node in a body writes its value. */
const statements = new Set('If For Set Macro Comment CallStatement FilterStatement Break Continue NewPass'.split(' '))

interface Arguments {
  readonly positional: readonly Value[]
  readonly named: ReadonlyMap<string, Value>
}

/**
 * Runs templates as transformers does. Where @huggingface/jinja departs from Jinja and Python without saying so, this class
 * evaluates the node itself: printing, strip and trim, join, tojson, equality, string concatenation, undefined attributes,
 * loops over undefined, variables that are set in a loop.
 */
export class PythonInterpreter extends BaseInterpreter {
  readonly #written = new WeakSet<Node>()

  override evaluate(node: Node | undefined, scope: Scope): Value {
    if (!node) return super.evaluate(node, scope)
    for (const body of [node.body, node.alternate, node.defaultBlock] as (Node[] | undefined)[])
      for (const each of body ?? []) if (!statements.has(each.type)) this.#written.add(each)
    const value = this.#evaluateAsPython(node, scope) ?? super.evaluate(node, scope)
    return this.#written.has(node) && !isString(value) ? toValue(str(value)) : value
  }

  /** @returns undefined where the library does what Jinja does */
  #evaluateAsPython(node: Node, scope: Scope): Value | undefined {
    switch (node.type) {
      case 'Evaluated':
        return node.value as Value
      case 'NewPass':
        for (const name of scope.variables.keys()) if (!(node.names as string[]).includes(name)) scope.variables.delete(name)
        return toValue('')
      case 'For':
        return this.#loop(node, scope)
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

  #loop(node: Node, scope: Scope): Value | undefined {
    const { iterable, loopvar, body } = node as unknown as { iterable: Node; loopvar: Node; body: Node[] }
    if (body[0]?.type === 'NewPass') return undefined
    const isFiltered = iterable.type === 'SelectExpression'
    const items = this.evaluate(isFiltered ? (iterable.lhs as Node) : iterable, scope)
    const known = evaluated(isUndefined(items) ? toValue([]) : items)
    const variables = loopvar.type === 'TupleLiteral' ? (loopvar.value as Node[]) : [loopvar]
    const names = ['loop', ...variables.map(({ value }) => value as string)]
    const once = { ...node, iterable: isFiltered ? { ...iterable, lhs: known } : known, body: [newPass(names), ...body] }
    return this.evaluate(once, scope)
  }

  #member(node: Node, scope: Scope): Value | undefined {
    const object = node.object as Node
    if (object.type === 'Evaluated') return undefined
    const value = this.evaluate(object, scope)
    if (isUndefined(value)) throw new Error(`${nameOf(object)} is undefined`)
    return this.evaluate({ ...node, object: evaluated(value) }, scope)
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
    const { positional, named } = this.#arguments((filter.args ?? []) as Node[], scope)
    const argument = (at: number, key: string) => (positional[at] ?? named.get(key))?.value
    switch (name) {
      case 'trim':
        return toValue(strip(str(operand), argument(0, 'chars') as string | undefined, 'both'))
      case 'string':
        return toValue(str(operand))
      case 'capitalize':
        return toValue(capitalize(str(operand)))
      case 'join': {
        if (argument(1, 'attribute') !== undefined) return undefined
        const items = isString(operand) ? Array.from(str(operand)).map(toValue) : (operand.value as Value[])
        if (!Array.isArray(items)) throw new Error(`cannot join a ${operand.type}`)
        return toValue(items.map(str).join((argument(0, 'd') as string | undefined) ?? ''))
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
    const { positional } = this.#arguments(node.args as Node[], scope)
    if (!ends) return toValue(capitalize(str(text)))
    return toValue(strip(str(text), (positional[0]?.value ?? undefined) as string | undefined, ends))
  }

  #arguments(nodes: readonly Node[], scope: Scope): Arguments {
    const positional: Value[] = []
    const named = new Map<string, Value>()
    for (const node of nodes)
      if (node.type === 'KeywordArgumentExpression')
        named.set((node.key as { value: string }).value, this.evaluate(node.value as Node, scope))
      else positional.push(this.evaluate(node, scope))
    return { positional, named }
  }
}

/** The order of arguments is that of the filter in transformers. */
function jsonOptions(argument: (at: number, key: string) => unknown): JsonOptions {
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

/** How the template names an expression, for errors. */
function nameOf(node: Node): string {
  if (node.type === 'Identifier') return String(node.value)
  if (node.type !== 'MemberExpression') return 'a value'
  const key = nameOf(node.property as Node)
  const object = nameOf(node.object as Node)
  return node.computed ? `${object}[…]` : `${object}.${key}`
}
